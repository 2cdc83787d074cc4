import { isDelayed } from '../store/delayed.ts'
import type { HeldEvent, Outbox } from '../store/outbox.ts'

/** Whoever is about to cancel an event does so in this time, or is asked again. */
export const BUSY_MS = 100

export interface Taken {
  /** Nobody can cancel them any more. */
  readonly ready: readonly HeldEvent[]
  /** They are not to be sent. */
  readonly cancelled: readonly HeldEvent[]
  /** So many aggregates wait for somebody who may be cancelling an event of theirs. */
  readonly busy: number
}

/** Of events whose time has come. Delayed ones are taken: from then on they cannot be cancelled. */
export async function take(outbox: Outbox, due: readonly HeldEvent[]): Promise<Taken> {
  const ids = due.filter(isDelayed).map(({ id }) => id)
  const not = (ids.length > 0 && (await outbox.takeDelayed?.({ ids }))) || []
  if (not.length === 0) return { ready: due, cancelled: [], busy: 0 }
  const found = new Map(not.map(({ id, cancelled }) => [id, cancelled]))
  const busy = new Set(due.filter(({ id }) => found.get(id) === false).map(({ aggregateId }) => aggregateId))
  return {
    ready: due.filter(({ id, aggregateId }) => !found.has(id) && !busy.has(aggregateId)),
    cancelled: due.filter(({ id }) => found.get(id)),
    busy: busy.size,
  }
}
