import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import type { Calls } from '../store/outbox.ts'
import { backoffMs } from './backoff.ts'

export interface ListenerParts {
  readonly calls: Calls
  readonly clock: Clock
  readonly random: Random
  readonly called: () => void
  readonly troubled: (error: unknown) => void
}

/** Listens for calls of other processes, and reconnects after a failure. Meanwhile the relay polls as usual. */
export class Listener {
  readonly #parts: ListenerParts
  #stop: (() => Promise<void>) | undefined
  #stopped = false
  #attempts = 0
  #cancel: () => void = () => {}

  constructor(parts: ListenerParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    const { calls, called } = this.#parts
    try {
      const stop = await calls.listen({ called, lost: (error) => this.#again(error) })
      if (this.#stopped) return await stop()
      this.#stop = stop
      this.#attempts = 0
      // There may have been calls while this process did not listen.
      called()
    } catch (error) {
      this.#again(error)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#stop?.()
  }

  #again(error: unknown): void {
    if (this.#stopped) return
    const { clock, random, troubled } = this.#parts
    this.#stop = undefined
    troubled(error)
    this.#cancel = clock.after(backoffMs(random, ++this.#attempts), () => void this.start())
  }
}
