/**
 * The time on this machine, only for waiting and measuring. The database's time decides who owns a key. The simulator
 * replaces this interface.
 */
export interface Clock {
  /** Monotonic milliseconds, from an arbitrary origin. */
  now(): number
  /** Calls back once, later. Returns a function that cancels it. Only a `held` timer keeps the process alive. */
  after(ms: number, callback: () => void, held?: boolean): () => void
  /** Calls back after everything that is ready now has run. Absent: right after the current code. */
  soon?(callback: () => void): void
}

/** Node's timers fire at once if they are longer than this: 24 days. */
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
export function sleep(clock: Clock, ms: number, signal?: AbortSignal | null): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const cancel = clock.after(ms, done, true)
    signal?.addEventListener('abort', done)
    function done(): void {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
  })
}
