import { BUSY_RETRY_MS } from '../../limits.ts'
import { type Clock, sleep } from '../../platform/clock.ts'
import type { Random } from '../../platform/random.ts'
import type { Breath } from './breath.ts'
import { isBusy, unavailable } from './failure.ts'

/** How we wait for other processes: on a timer. SQLite's own busy handler would stop the event loop meanwhile. */
export interface Patience {
  readonly file: string
  readonly clock: Clock
  readonly random: Random
  readonly breath: Breath
}

/** Tries again while another connection holds the lock; past `until` it is ONCE_STORE_UNAVAILABLE. */
export async function whileBusy<T>(patience: Patience, until: number, work: () => T): Promise<T> {
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (patience.clock.now() >= until) throw unavailable(patience.file, error)
    }
    await pause(patience)
  }
}

export function pause({ clock, random }: Patience): Promise<void> {
  return sleep(clock, BUSY_RETRY_MS * (0.5 + random.next()))
}
