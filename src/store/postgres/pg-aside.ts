import { onceError } from '../../errors.ts'
import type { PgClient, PgManner, PgPool } from './pg-client.ts'
import { linkOf } from './pg-link.ts'
import type { PgLink } from './pg-link.ts'
import type { PgStatement } from './driver.ts'
import type { TripOutcome } from './pg-pipeline.ts'
import { isConnectionLost } from './sqlstate.ts'

const CLOSE_WAIT_MS = 1_000

/**
 * A connection of its own beside the pool, for statements that must not wait until an operation lets go of one. Opened
 * when first needed, opened again after a failure; idle, it does not keep the process alive.
 */
export class PgAside {
  readonly #pool: PgPool
  readonly #manner: PgManner
  #client: PgClient | null = null
  #link: Promise<PgLink> | null = null
  #tail: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(pool: PgPool, manner: PgManner) {
    this.#pool = pool
    this.#manner = manner
  }

  /** One after the other. */
  run(statement: PgStatement): Promise<TripOutcome> {
    const turn = this.#tail.then(() => this.#run(statement))
    this.#tail = turn.catch(() => {})
    return turn
  }

  /** What is under way may finish, but a server that does not answer is not waited for. */
  async close(): Promise<void> {
    this.#closed = true
    await within(CLOSE_WAIT_MS, this.#tail)
    await within(CLOSE_WAIT_MS, this.#drop())
  }

  async #run(statement: PgStatement): Promise<TripOutcome> {
    if (this.#closed) throw onceError('ONCE_CLOSED')
    const link = await this.#connected()
    link.client.ref?.()
    const outcome = await link.run([statement], this.#manner)
    if (link.broken || (outcome.failedAt >= 0 && isConnectionLost(outcome.error))) {
      void this.#drop()
    } else link.client.unref?.()
    return outcome
  }

  async #connected(): Promise<PgLink> {
    if ((await this.#link)?.broken) void this.#drop()
    this.#link ??= this.#connect()
    try {
      return await this.#link
    } catch (error) {
      void this.#drop()
      throw error
    }
  }

  async #drop(): Promise<void> {
    const client = this.#client
    this.#client = null
    this.#link = null
    await client?.end().catch(() => {})
  }

  async #connect(): Promise<PgLink> {
    const { Client, options } = this.#pool
    if (!Client) throw onceError('ONCE_INVARIANT', { detail: 'the pool has no Client to connect with' })
    const client: PgClient = new Client(options)
    this.#client = client
    const link = linkOf(client)
    link.hold()
    try {
      await client.connect()
      await options?.onConnect?.(client)
    } catch (cause) {
      throw onceError('ONCE_STORE_UNAVAILABLE', {
        detail: `no connection beside the pool: ${cause instanceof Error ? cause.message : String(cause)}`,
        cause,
      })
    }
    return link
  }
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
