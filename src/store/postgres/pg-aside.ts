import { onceError } from '../../errors.ts'
import type { PgClient, PgManner, PgPool } from './pg-client.ts'
import { linkOf } from './pg-link.ts'
import type { PgLink } from './pg-link.ts'
import type { PgStatement } from './driver.ts'
import type { TripOutcome } from './pg-pipeline.ts'
import { isConnectionLost } from './sqlstate.ts'

/**
 * A connection of its own beside the pool, for statements that must not wait until an operation lets go of one. Opened
 * when first needed, opened again after a failure; idle, it does not keep the process alive.
 */
export class PgAside {
  readonly #pool: PgPool
  readonly #manner: PgManner
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

  async close(): Promise<void> {
    this.#closed = true
    await this.#tail
    const link = await this.#link?.catch(() => null)
    this.#link = null
    await link?.client.end().catch(() => {})
  }

  async #run(statement: PgStatement): Promise<TripOutcome> {
    if (this.#closed) throw onceError('ONCE_CLOSED')
    this.#link ??= this.#connect()
    let link: PgLink
    try {
      link = await this.#link
    } catch (error) {
      this.#link = null
      throw error
    }
    link.client.ref?.()
    const outcome = await link.run([statement], this.#manner)
    if (link.broken || (outcome.failedAt >= 0 && isConnectionLost(outcome.error))) {
      this.#link = null
      void link.client.end().catch(() => {})
    } else link.client.unref?.()
    return outcome
  }

  async #connect(): Promise<PgLink> {
    const { Client, options } = this.#pool
    if (!Client) throw onceError('ONCE_INVARIANT', { detail: 'the pool has no Client to connect with' })
    const client: PgClient = new Client(options)
    const link = linkOf(client)
    link.hold()
    try {
      await client.connect()
      await options?.onConnect?.(client)
    } catch (cause) {
      void client.end().catch(() => {})
      throw onceError('ONCE_STORE_UNAVAILABLE', {
        detail: `no connection beside the pool: ${cause instanceof Error ? cause.message : String(cause)}`,
        cause,
      })
    }
    return link
  }
}
