import { isDelayed } from '../store/delayed.ts'
import type { HeldEvent, Outbox } from '../store/outbox.ts'

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
  const found = ids.length > 0 ? await outbox.takeDelayed({ ids }) : []
  const not = new Map(found.map(({ id, cancelled }) => [id, cancelled]))
  const busy = new Set(due.filter(({ id }) => not.get(id) === false).map(({ aggregateId }) => aggregateId))
  return {
    ready: due.filter(({ id, aggregateId }) => !not.has(id) && !busy.has(aggregateId)),
    cancelled: due.filter(({ id }) => not.get(id)),
    busy: busy.size,
  }
}
