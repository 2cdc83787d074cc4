import { setTimeout as sleep } from 'node:timers/promises'
import type { Duration, Signal } from '../../src/index.ts'
import { CONSUMER, openOnce, TABLES, type WeatherOnce } from './catalogue.ts'
import type { Database } from './database.ts'
import { Link } from './link.ts'

const SWEEP_MS = 2_000
const REDRIVEN_MS_MAX = 60_000
const CHECKPOINT_MS = 9_000
/**
 * The period to resend after an asynchronous promotion. Its events may have been applied only on the lost server, by
 * consumers that were a minute behind on a busy machine.
 */
const RESEND_MS = 120_000

/**
 * The product waits five minutes for a dead sweeper; this test waits a few seconds. Two sweepers at once do no harm.
 */
const LET_GO = `update effectively_once.sweeper set until = clock_timestamp()
  where until between clock_timestamp() and clock_timestamp() + interval '290 s'`

export interface OperatorParams {
  readonly resendFor: Duration
  readonly sweepMs?: number | undefined
  tell(line: string): void
}

/**
 * The operator of the service: sweeps, makes checkpoints, resends after a failover, and redrives after a deployment.
 */
export class Operator {
  checkpoints = 0
  /** The number of outbox segments that came into use. */
  turned = 0
  readonly #database: Database
  readonly #link: Link
  readonly #opened: ReturnType<typeof openOnce>
  readonly #ending = new AbortController()
  readonly #seen = new Set<string>()
  readonly #tell: (line: string) => void
  readonly #sweepMs: number
  #miscounted = false
  #work: Promise<unknown> = Promise.resolve()

  private constructor(database: Database, link: Link, { resendFor, sweepMs, tell }: OperatorParams) {
    this.#database = database
    this.#link = link
    this.#tell = tell
    this.#sweepMs = sweepMs ?? SWEEP_MS
    const observe = (signal: Signal): void => {
      // The alarm repeats until an operator reacts. Reporting it once is enough here.
      if (signal.kind !== 'miscounted' || this.#miscounted) return
      this.#miscounted = true
      tell(`miscounted: ${JSON.stringify(signal)}`)
    }
    this.#opened = openOnce(link.through(database.primary.url), observe, { resendFor })
  }

  static async start(database: Database, params: OperatorParams): Promise<Operator> {
    const operator = new Operator(database, await Link.open(database.primary.port), params)
    await operator.once.migrate()
    await database.primary.rows(TABLES)
    return operator
  }

  get once(): WeatherOnce {
    return this.#opened.once
  }

  moved(port: number): void {
    this.#link.moved(port)
  }

  /** Makes checkpoints and turns segments over until `end`. */
  begin(): void {
    this.#work = Promise.all([
      this.#every(this.#sweepMs, async () => {
        await this.#database.primary.rows(LET_GO)
        await this.once.sweep()
        await this.#countTurned()
      }),
      this.#every(CHECKPOINT_MS, async () => {
        await this.#database.checkpoint()
        this.checkpoints++
      }),
    ])
  }

  /** Resends to the broker's sink every event that the lost server may have acknowledged. */
  async sendAgain(destination: string): Promise<void> {
    const since = new Date(Date.now() - RESEND_MS)
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        const events = await this.once.resend({ destination, since })
        return this.#tell(`${events} events are sent again to ${destination}`)
      } catch (error) {
        this.#tell(`resend: ${String(error)}`)
        await sleep(1_000)
      }
    }
  }

  /** Redrives the letters that the first version could not handle, once every process runs the second one. */
  async redriveAll(): Promise<void> {
    const deadline = performance.now() + REDRIVEN_MS_MAX
    for (let told = 0; performance.now() < deadline;) {
      const letters = await this.#redrive().catch((error: unknown) => {
        this.#tell(`redrive: ${String(error)}`)
        return 1
      })
      if (letters > told) this.#tell(`${letters} letters are redriven`)
      if (letters === 0) return
      told = letters
      await sleep(1_000)
    }
  }

  /** Returns the number of letters. */
  async #redrive(): Promise<number> {
    const plan = await this.once.redrive.plan({ consumer: CONSUMER })
    if (plan.matching === 0) return 0
    const working = (await this.once.redrive.list()).some(({ state }) => state === 'running')
    if (!working) {
      const why = { by: 'weather', why: 'every process has the second version' }
      await this.once.redrive.run({ consumer: CONSUMER }, { ...why, canary: 0, rate: 2_000, pauseAt: 1, reorder: true })
    }
    return plan.matching
  }

  async end(): Promise<void> {
    this.#ending.abort()
    await this.#work
    await this.#opened.close().catch(() => {})
    await this.#link.close()
  }

  async #every(ms: number, work: () => Promise<void>): Promise<void> {
    const { signal } = this.#ending
    while (!signal.aborted) {
      // The database may be unavailable. The next round tries again.
      await work().catch(() => {})
      await sleep(ms, undefined, { signal }).catch(() => {})
    }
  }

  /** Counts new partitions, because one is attached whenever the previous one comes into use. */
  async #countTurned(): Promise<void> {
    const rows = await this.#database.primary.rows<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'effectively_once.event'::regclass`,
    )
    const fresh = rows.filter(({ name }) => !this.#seen.has(name))
    if (this.#seen.size > 2) this.turned += fresh.length
    for (const { name } of fresh) this.#seen.add(name)
  }
}
