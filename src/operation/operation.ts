import { onceError } from '../errors.ts'
import type { Events } from '../outbox/event.ts'
import type { Publisher, PublishOptions } from '../outbox/publisher.ts'
import type { LazySignal } from './deadline.ts'
import type { Operation } from './types.ts'

/** What an atomic handler, or a leased operation's `commit`, gets. */
export class AtomicOperation<Tx> implements Operation<Tx, Events> {
  readonly id: string
  readonly key: string
  readonly scope: string
  readonly attempt: number
  readonly tx: Tx
  readonly #signal: LazySignal
  readonly #publisher: Publisher
  #open = true

  constructor(of: {
    id: string
    key: string
    scope: string
    attempt: number
    tx: Tx
    signal: LazySignal
    publisher: Publisher
  }) {
    this.id = of.id
    this.key = of.key
    this.scope = of.scope
    this.attempt = of.attempt
    this.tx = of.tx
    this.#signal = of.signal
    this.#publisher = of.publisher
    // Handlers take it apart: `async ({ tx, publish }) => …`
    this.publish = this.publish.bind(this)
  }

  get signal(): AbortSignal {
    return this.#signal.signal
  }

  publish(type: string, data: unknown, options?: PublishOptions): Promise<string> {
    if (!this.#open) {
      const detail = 'publish was called after its operation ended. Await every call'
      const refused = Promise.reject<string>(onceError('ONCE_TX_CLOSED', { detail }))
      // If the operation was cut off, its caller knows that nothing was committed. After a commit the event is lost.
      if (this.#signal.aborted) refused.catch(() => {})
      return refused
    }
    return this.#publisher.publish(type, data, options)
  }

  end(): void {
    this.#open = false
  }
}
