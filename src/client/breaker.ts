import type { Clock } from '../platform/clock.ts'

export interface Breaker {
  /** 0: the caller may send now. Otherwise how long it must wait before it asks again. */
  waitMs(): number
  heard(isFailure: boolean): void
}

/** Rests after failures in a row. Then one call tries the origin, and the others wait for its result. */
export function breakerOf(clock: Clock, most: number, restMs: number): Breaker {
  let failures = 0
  let restUntil = 0
  return {
    waitMs() {
      const now = clock.now()
      if (failures >= most && now < restUntil) return restUntil - now
      restUntil = now + restMs
      return 0
    },
    heard(isFailure) {
      failures = isFailure ? failures + 1 : 0
      restUntil = clock.now() + restMs
    },
  }
}
