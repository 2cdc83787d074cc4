import { BUSY_RETRY_MS } from '../../limits.ts'
import { type Clock, sleep } from '../../platform/clock.ts'
import type { Random } from '../../platform/random.ts'
import type { EventLoopTurn } from './event-loop-turn.ts'
import { isBusy, unavailable } from './failure.ts'

/** How we wait for other processes: on a timer. SQLite's own busy handler would block the event loop. */
export interface BusyRetry {
  readonly file: string
  readonly clock: Clock
  readonly random: Random
  readonly eventLoop: EventLoopTurn
}

/** Tries again while another connection holds the lock. After `until`, it throws ONCE_STORE_UNAVAILABLE. */
export async function whileBusy<T>(retry: BusyRetry, until: number, work: () => T): Promise<T> {
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (retry.clock.now() >= until) throw unavailable(retry.file, error)
    }
    await pause(retry)
  }
}

export function pause({ clock, random }: BusyRetry): Promise<void> {
  return sleep(clock, BUSY_RETRY_MS * (0.5 + random.next()))
}
