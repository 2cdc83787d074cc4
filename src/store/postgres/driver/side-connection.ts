import { onceError } from '../../../errors.ts'
import { STATEMENT_WITHIN_MS } from '../../../limits.ts'
import type { Row } from '../../store.ts'
import type { PgClient, PgPool } from './client.ts'
import { linkOf } from './link.ts'
import type { PgLink } from './link.ts'
import type { PgStatement } from './driver.ts'
import { isNamesFault } from './context.ts'
import type { PgDriverContext } from './context.ts'
import { rowsOf } from './pipeline.ts'
import type { TripOutcome } from './pipeline.ts'
import { isConnectionLost } from './sqlstate.ts'

const CLOSE_WAIT_MS = 1_000

/**
 * A separate connection beside the pool, for statements that must not wait for a connection of an operation. It is
 * opened at first use, and again after a failure. While idle, it does not keep the process alive.
 */
export class SideConnection {
  readonly #pool: PgPool
  readonly #context: PgDriverContext
  #client: PgClient | null = null
  #link: Promise<PgLink> | null = null
  #tail: Promise<void> = Promise.resolve()
  #closed = false

  constructor(pool: PgPool, context: PgDriverContext) {
    this.#pool = pool
    this.#context = context
  }

  /**
   * Runs statements one after the other. If no answer comes within the time limit, the statement fails and the
   * connection is closed.
   */
  async query(statement: PgStatement, withinMs?: number): Promise<readonly Row[]> {
    const before = this.#tail
    let done!: () => void
    this.#tail = new Promise<void>((resolve) => (done = resolve))
    await before
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      const sentAt = performance.now()
      if (withinMs !== undefined) timer = setTimeout(() => reject(this.#giveUp(withinMs, sentAt)), withinMs)
    })
    try {
      return rowsOf(await Promise.race([this.#run(statement), late]))
    } finally {
      clearTimeout(timer)
      done()
    }
  }

  /** Waits for a statement that is under way, but not for a server that does not answer. */
  async close(): Promise<void> {
    this.#closed = true
    await within(CLOSE_WAIT_MS, this.#tail)
    await within(CLOSE_WAIT_MS, this.#drop())
  }

  /** Destroys the stream, because a server that does not answer would not answer an orderly end either. */
  #giveUp(withinMs: number, sentAt: number): Error {
    this.#context.silentAt = Math.max(this.#context.silentAt, sentAt)
    this.#client?.connection?.stream?.destroy?.()
    void this.#drop()
    return onceError('ONCE_STORE_UNAVAILABLE', { detail: `no answer from the database within ${withinMs} ms` })
  }

  async #run(statement: PgStatement): Promise<TripOutcome> {
    if (this.#closed) throw onceError('ONCE_CLOSED')
    const link = await this.#connected()
    link.client.ref?.()
    const named = this.#context.prepared
    let outcome = await link.run([statement], this.#context)
    if (named && isNamesFault(this.#context, outcome)) outcome = await link.run([statement], this.#context)
    if (link.broken || link.isReadOnly || (outcome.failedAt >= 0 && isConnectionLost(outcome.error))) {
      void this.#drop(link)
    } else link.client.unref?.()
    return outcome
  }

  async #connected(): Promise<PgLink> {
    const link = await this.#link
    if (link?.broken) void this.#drop(link)
    else if (link?.isDoubtful(this.#context)) {
      void this.#drop(link)
      link.client.connection?.stream?.destroy?.()
    }
    this.#link ??= this.#connect()
    try {
      return await this.#link
    } catch (error) {
      void this.#drop()
      throw error
    }
  }

  /** `link`: only if it is still the one in use. */
  async #drop(link?: PgLink): Promise<void> {
    const client = this.#client
    if (link && client !== link.client) return
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
      await answered(client, client.connect())
      await options?.onConnect?.(client)
    } catch (cause) {
      throw onceError('ONCE_STORE_UNAVAILABLE', {
        detail: `no connection outside the pool: ${cause instanceof Error ? cause.message : String(cause)}`,
        cause,
      })
    }
    return link
  }
}

/** Does not wait for a host that accepts the connection but never answers. */
async function answered(client: PgClient, connecting: Promise<unknown>): Promise<void> {
  const timer = setTimeout(() => {
    client.connection?.stream?.destroy(new Error(`no answer from the database within ${STATEMENT_WITHIN_MS} ms`))
  }, STATEMENT_WITHIN_MS)
  await connecting.finally(() => clearTimeout(timer))
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
