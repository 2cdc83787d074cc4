import { CACHE_FAILURES_MAX, CACHE_LOOK_MS_MAX, CACHE_QUIET_MS, CACHE_REST_MS } from './limits.ts'
import type { Clock } from '../platform/clock.ts'

interface Pending {
  readonly at: number
  giveUp(): void
}

/**
 * Bounds what a cache may cost. A request is given up after a few milliseconds in which the server replied to nobody.
 * After a few such failures the server is not asked for a while. Then single requests try it, for which no caller waits.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #onOpen: (error: unknown) => void
  /** Oldest first. */
  readonly #pending = new Set<Pending>()
  #heardAt = -Infinity
  #failures = 0
  /** Undefined: closed. */
  #restUntil: number | undefined
  #isTiming = false

  constructor(clock: Clock, onOpen: (error: unknown) => void) {
    this.#clock = clock
    this.#onOpen = onOpen
  }

  get isClosed(): boolean {
    return this.#restUntil === undefined
  }

  /** No request would be asked now, nor try the server. */
  get isResting(): boolean {
    return this.#restUntil !== undefined && this.#clock.now() < this.#restUntil
  }

  /** Undefined: there was no answer in time, or the server was not asked. */
  run<T>(ask: () => Promise<T>): Promise<T | undefined> {
    if (this.#restUntil !== undefined) {
      if (this.#clock.now() >= this.#restUntil) this.#try(ask)
      return Promise.resolve(undefined)
    }
    return new Promise((resolve) => {
      const pending = { at: this.#clock.now(), giveUp: () => resolve(undefined) }
      this.#pending.add(pending)
      ask().then(
        (answer) => {
          this.#pending.delete(pending)
          this.#heard()
          resolve(answer)
        },
        (error: unknown) => {
          if (this.#pending.delete(pending)) this.#failed(error)
          resolve(undefined)
        },
      )
      this.#time()
    })
  }

  /** The reply of an earlier request closes the breaker too. */
  #try(ask: () => Promise<unknown>): void {
    this.#restUntil = this.#clock.now() + CACHE_REST_MS
    ask().then(
      () => this.#heard(),
      () => {},
    )
  }

  #heard(): void {
    this.#heardAt = this.#clock.now()
    this.#failures = 0
    this.#restUntil = undefined
  }

  #failed(error: unknown): void {
    this.#failures += 1
    if (this.#failures < CACHE_FAILURES_MAX || this.#restUntil !== undefined) return
    this.#restUntil = this.#clock.now() + CACHE_REST_MS
    for (const pending of this.#pending) pending.giveUp()
    this.#pending.clear()
    this.#onOpen(error)
  }

  /** One timer for all requests. If the process itself was busy, the replies are read before anything is given up. */
  #time(): void {
    if (this.#isTiming) return
    this.#isTiming = true
    this.#clock.after(CACHE_QUIET_MS, () => {
      const judge = (): void => {
        this.#isTiming = false
        this.#judge()
        if (this.#pending.size > 0) this.#time()
      }
      if (this.#clock.soon) this.#clock.soon(judge)
      else judge()
    })
  }

  #judge(): void {
    const now = this.#clock.now()
    const isQuiet = now - this.#heardAt >= CACHE_QUIET_MS
    let given = 0
    for (const pending of this.#pending) {
      if (now - pending.at < (isQuiet ? CACHE_QUIET_MS : CACHE_LOOK_MS_MAX)) break
      this.#pending.delete(pending)
      pending.giveUp()
      given += 1
    }
    if (given > 0) this.#failed(new Error(`no answer from the cache within ${CACHE_QUIET_MS} ms`))
  }
}
