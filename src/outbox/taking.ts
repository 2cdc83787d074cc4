import { RELAY_POLL_BUSY_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import { isDelayed } from '../store/delayed.ts'
import { isErasedEvent } from '../store/erasure.ts'
import type { HeldEvent, Outbox } from '../store/outbox.ts'

export interface Taken {
  /** Events that can no longer be cancelled. */
  readonly ready: readonly HeldEvent[]
  /** Events that must not be sent, because they were cancelled or erased. */
  readonly cancelled: readonly HeldEvent[]
  /** Aggregates with an event that an open transaction may be cancelling. */
  readonly busy: ReadonlySet<string>
}

/** Aggregates that are left out of reads for a moment, so that their events do not displace those of others. */
export class BusyAggregates {
  readonly #clock: Clock
  readonly #until = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get all(): readonly string[] {
    return [...this.#until.keys()]
  }

  get some(): boolean {
    return this.#until.size > 0
  }

  add(aggregates: ReadonlySet<string>): void {
    for (const aggregate of aggregates) this.#until.set(aggregate, this.#clock.now() + RELAY_POLL_BUSY_MS)
  }

  /** Stops leaving out the aggregates whose moment is over. Returns how many. */
  letGo(): number {
    const over = [...this.#until].filter(([, until]) => until <= this.#clock.now())
    for (const [aggregate] of over) this.#until.delete(aggregate)
    return over.length
  }
}

/** Takes the delayed events among those that are due. A taken event can no longer be cancelled. */
export async function take(outbox: Outbox, due: readonly HeldEvent[]): Promise<Taken> {
  const ids = due.filter(isDelayed).map(({ id }) => id)
  const found = ids.length > 0 ? await outbox.takeDelayed({ ids }) : []
  const not = new Map(found.map(({ id, cancelled }) => [id, cancelled]))
  const busy = new Set(due.filter(({ id }) => not.get(id) === false).map(({ aggregateId }) => aggregateId))
  const isOff = (event: HeldEvent): boolean => not.get(event.id) === true || isErasedEvent(event)
  return {
    ready: due.filter((event) => !not.has(event.id) && !busy.has(event.aggregateId) && !isOff(event)),
    cancelled: due.filter(isOff),
    busy,
  }
}
