import { RELAY_BACKOFF_MS, RELAY_BACKOFF_MS_MAX, RELAY_DOWN_MS_MAX } from '../limits.ts'
import type { Random } from '../platform/random.ts'

/** Full jitter: any time up to the bound, so that events that failed together are not retried together. */
export function backoffMs(random: Random, attempts: number): number {
  const bound = Math.min(RELAY_BACKOFF_MS_MAX, RELAY_BACKOFF_MS * 2 ** Math.min(attempts - 1, 20))
  return Math.max(1, Math.round(bound * random.next()))
}

/** The pause before the next try while the database or the sink is down. A long pause would outlast the outage. */
export function pauseWhileDownMs(random: Random, failures: number): number {
  return Math.min(RELAY_DOWN_MS_MAX, backoffMs(random, failures))
}
