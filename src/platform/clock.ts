/**
 * Time on this machine: only for waiting and measuring, never for deciding who owns a key (that time is the
 * database's). A seam, so that the simulator can own it.
 */
export interface Clock {
  /** Monotonic milliseconds; the origin means nothing. */
  now(): number
  /** Calls back once, later; the returned function cancels it. Only a `held` timer keeps the process alive. */
  after(ms: number, callback: () => void, held?: boolean): () => void
  /** Calls back when everything that is ready now has been dealt with. Without it: after the code that runs now. */
  soon?(callback: () => void): void
}

/** Node calls back at once after more than this: 24 days. */
const TIMER_MS_MAX = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback, held = false) {
    const timer = setTimeout(callback, Math.min(ms, TIMER_MS_MAX))
    if (!held) timer.unref?.()
    return () => clearTimeout(timer)
  },
  soon(callback) {
    setImmediate(callback)
  },
}

/** Sleeps until the time is over or the signal aborts, whichever comes first. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const cancel = clock.after(ms, done, true)
    signal?.addEventListener('abort', done, { once: true })
    function done(): void {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
  })
}
