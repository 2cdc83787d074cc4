import { onceError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Enclosing } from './enclosing.ts'
import type { RunningHandlers } from './running.ts'

/** An abort signal that is created only when it is first read, because most handlers never read it. */
export class LazySignal {
  #controller: AbortController | undefined
  #reason: unknown

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  abort(reason: unknown): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}

/**
 * Runs the work of an operation and waits for its children, up to its time limit. At the limit the signal aborts and
 * the caller gets the error. The work itself cannot be stopped from here. Its revoked handles, the fence and the
 * server's own deadline make sure that it commits nothing. In both cases the operation has ended when `run` settles.
 */
export class TimeLimit {
  readonly #clock: Clock
  readonly #ms: number
  readonly #signal: LazySignal
  readonly #enclosing: Enclosing
  readonly #running: RunningHandlers | undefined
  readonly #endsAt: number
  #cancel: () => void = () => {}
  #resolve: ((value: unknown) => void) | undefined
  #reject: ((reason: unknown) => void) | undefined
  #settled = false
  #concluded: { readonly value: unknown } | undefined

  /**
   * `running` lists the work that `close` may cut off. It is absent inside another operation, because that operation is
   * listed.
   */
  constructor(clock: Clock, ms: number, signal: LazySignal, enclosing: Enclosing, running?: RunningHandlers) {
    this.#clock = clock
    this.#ms = ms
    this.#signal = signal
    this.#enclosing = enclosing
    this.#running = running
    this.#endsAt = clock.now() + ms
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    this.start()
    try {
      return this.of(work())
    } catch (error) {
      return this.of(Promise.reject(error))
    }
  }

  /** The time starts here. The wait ends when this limit or the outer operation ends the operation. */
  start(): void {
    this.#arm(this.#ms)
    this.#enclosing.onStop(() => this.#stopped())
    this.#running?.add(this.#enclosing)
  }

  /** Waits for work that has begun after `start`. */
  of<T>(work: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#resolve = resolve as (value: unknown) => void
      this.#reject = reject
      work.then(
        (value) => this.#settle(true, value),
        (error: unknown) => this.#settle(false, error),
      )
      if (this.#enclosing.ended) this.#stopped()
    })
  }

  #settle(done: boolean, result: unknown): void {
    const enclosing = this.#enclosing
    if (enclosing.ended) return this.#leave()
    if (enclosing.pending > 0) return whenChildrenEnded(this.#clock, enclosing, () => this.#settle(done, result))
    // A busy process runs its timers late, so the clock decides, not the timer.
    if (done && !this.#concluded && this.#clock.now() >= this.#endsAt) {
      this.#pass()
      return this.#leave()
    }
    this.#settled = true
    if (this.#concluded) this.#resolve?.(this.#concluded.value)
    else if (done) this.#resolve?.(result)
    else this.#reject?.(result)
    enclosing.end()
  }

  #stopped(): void {
    this.#cancel()
    this.#running?.delete(this.#enclosing)
    if (this.#settled) return
    if (this.#concluded) return this.#resolve?.(this.#concluded.value)
    const reason = this.#enclosing.closed()
    this.#enclosing.isCut = true
    this.#signal.abort(reason)
    this.#reject?.(reason)
  }

  /** The work has ended too. Calls that it left behind no longer belong to the operation. */
  #leave(): void {
    this.#enclosing.isCut = false
  }

  /** The operation is committed: from now on this is its result, even if the work fails later. */
  conclude(value: unknown): void {
    this.#concluded = { value }
  }

  /**
   * While the database commits, neither the limit nor `close` ends the operation. Returns a function that resumes the
   * limit, or undefined if the time was already over.
   */
  pause(): (() => void) | undefined {
    if (this.#enclosing.ended) return undefined
    this.#cancel()
    this.#running?.delete(this.#enclosing)
    return () => {
      if (this.#enclosing.ended) return
      this.#arm(Math.max(0, this.#endsAt - this.#clock.now()))
      this.#running?.add(this.#enclosing)
    }
  }

  #arm(ms: number): void {
    this.#cancel = this.#clock.after(ms, () => this.#pass(), true)
  }

  #pass(): void {
    const error = onceError('ONCE_DEADLINE', {
      detail: `The operation passed its deadline of ${this.#ms} ms; nothing was committed`,
    })
    this.#signal.abort(error)
    this.#enclosing.end(error)
  }
}

/** Waits one more turn, because the code after a child may start another child. */
function whenChildrenEnded(clock: Clock, enclosing: Enclosing, callback: () => void): void {
  enclosing.whenIdle(() => (clock.soon ?? queueMicrotask)(callback))
}

/** The same as a promise. It resolves at once if the operation has ended. */
export async function childrenEnded(clock: Clock, enclosing: Enclosing): Promise<void> {
  while (enclosing.pending > 0 && !enclosing.ended) {
    await new Promise<void>((go) => whenChildrenEnded(clock, enclosing, go))
  }
}

/** Waits for the validation by the user's schema, with a time limit. */
export function withinMs<T>(clock: Clock, ms: number, work: T | Promise<T>): T | Promise<T> {
  if (!(work instanceof Promise)) return work
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(onceError('ONCE_DEADLINE')), true)
    work.finally(cancel).then(resolve, reject)
  })
}
