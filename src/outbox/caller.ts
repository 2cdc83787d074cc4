import type { Observe } from '../observe/signal.ts'
import type { Calls } from '../store/outbox.ts'
import { required } from '../store/lacking.ts'
import type { Store } from '../store/store.ts'
import type { WakeableRelay } from './relay.ts'

/**
 * Tells other processes that events were committed. Many commits in a row make one call: one is under way, and at most
 * one waits for it.
 */
export class Caller implements Pick<WakeableRelay, 'kind' | 'name' | 'underWay' | 'isFed' | 'wake' | 'stop'> {
  readonly kind = 'relay'
  readonly name = 'listen'
  /** A lost call does no harm, because no relay waits for it. */
  readonly underWay = 0
  readonly isFed = false
  readonly #calls: Calls
  readonly #troubled: (error: unknown) => void
  #calling = false
  #again = false
  #stopped = false

  constructor(calls: Calls, troubled: (error: unknown) => void) {
    this.#calls = calls
    this.#troubled = troubled
  }

  wake(): void {
    if (this.#stopped) return
    if (this.#calling) {
      this.#again = true
      return
    }
    this.#calling = true
    // If a notification is lost, relays find the events at their next poll.
    void this.#calls
      .call()
      .catch(this.#troubled)
      .finally(() => {
        this.#calling = false
        if (!this.#again) return
        this.#again = false
        this.wake()
      })
  }

  stop(): Promise<void> {
    this.#stopped = true
    return Promise.resolve()
  }
}

export function callerOf<Tx>({ name, outbox }: Pick<Store<Tx>, 'name' | 'outbox'>, observe: Observe): Caller {
  const calls = required({ name }, outbox?.calls, 'listen')
  return new Caller(calls, (error) => observe({ kind: 'troubled', task: 'relay', error }))
}
