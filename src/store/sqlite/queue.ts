import { onceError } from '../../errors.ts'
import type { Clock } from '../../platform/clock.ts'
import type { EventLoopTurn } from './event-loop-turn.ts'

interface Waiter {
  readonly cancel: () => void
  readonly enter: () => void
  readonly refuse: (error: Error) => void
}

/**
 * An async mutex. One caller is inside, and a bounded number waits for a bounded time, in the order in which they came.
 */
export class Queue {
  readonly #clock: Clock
  readonly #eventLoop: EventLoopTurn
  readonly #limit: number
  #waiting: Waiter[] = []
  #taken = false
  #idle: (() => void) | undefined
  #closed = false

  constructor(clock: Clock, eventLoop: EventLoopTurn, limit: number) {
    this.#clock = clock
    this.#eventLoop = eventLoop
    this.#limit = limit
  }

  /** How many callers wait for their turn. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Resolves when it is the caller's turn. Then the caller must call `leave` once. An urgent caller goes first, and is
   * never refused because the queue is full.
   */
  enter({ waitMs, urgent = false }: { waitMs: number; urgent?: boolean | undefined }): Promise<void> {
    if (this.#closed) return Promise.reject(onceError('ONCE_CLOSED'))
    if (!this.#taken) {
      this.#taken = true
      return new Promise((resolve) => this.#eventLoop.before(resolve))
    }
    if (!urgent && this.#waiting.length >= this.#limit) {
      return Promise.reject(
        onceError('ONCE_QUEUE_FULL', { detail: `${this.#limit} operations wait for the only writer` }),
      )
    }
    return this.#wait(waitMs, urgent)
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (!next) {
      this.#taken = false
      this.#idle?.()
      return
    }
    next.cancel()
    this.#eventLoop.before(next.enter)
  }

  /** Refuses waiting and new callers. Resolves when no caller is inside any more. */
  close(): Promise<void> {
    this.#closed = true
    for (const waiter of this.#waiting.splice(0)) {
      waiter.cancel()
      waiter.refuse(onceError('ONCE_CLOSED'))
    }
    if (!this.#taken) return Promise.resolve()
    return new Promise((resolve) => {
      this.#idle = resolve
    })
  }

  #wait(waitMs: number, urgent: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(waitMs, () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter)
        reject(onceError('ONCE_QUEUE_FULL', { detail: `The only writer was not free within ${Math.round(waitMs)} ms` }))
      })
      const waiter: Waiter = { cancel, enter: resolve, refuse: reject }
      if (urgent) this.#waiting.unshift(waiter)
      else this.#waiting.push(waiter)
    })
  }
}
