import type { PgPool } from './client.ts'
import type { PgLink } from './link.ts'
import type { PgDriverContext } from './context.ts'
import { rollBack } from './rollback.ts'

/**
 * Connections of operations that wrote nothing, such as replays, and are not rolled back yet. The next operation in
 * this turn of the event loop takes one over, and sends ROLLBACK with its own BEGIN. So a retry storm needs one round
 * trip per retry instead of two. The others are rolled back when the turn ends, so nothing stays open while the process
 * is idle.
 */
export class DeferredRollbacks {
  readonly #pool: PgPool
  readonly #context: PgDriverContext
  readonly #links: PgLink[] = []

  constructor(pool: PgPool, context: PgDriverContext) {
    this.#pool = pool
    this.#context = context
  }

  leave(link: PgLink): void {
    // Callers that wait for the pool come first. Without grouped statements a ROLLBACK is a separate trip anyway.
    if ((this.#pool.waitingCount ?? 1) > 0 || link.way !== 'grouped') {
      void rollBack(link, this.#context)
      return
    }
    if (this.#links.push(link) === 1) setImmediate(() => this.#rollBackAll())
  }

  take(): PgLink | undefined {
    for (let link = this.#links.pop(); link; link = this.#links.pop()) {
      if (!link.broken) return link
      link.release(true)
    }
    return undefined
  }

  #rollBackAll(): void {
    for (const link of this.#links.splice(0)) void rollBack(link, this.#context)
  }
}
