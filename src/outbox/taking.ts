import { RELAY_POLL_BUSY_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import { isDelayed } from '../store/delayed.ts'
import type { HeldEvent, Outbox } from '../store/outbox.ts'

export interface Taken {
  /** Nobody can cancel them any more. */
  readonly ready: readonly HeldEvent[]
  /** They are not to be sent. */
  readonly cancelled: readonly HeldEvent[]
  /** Aggregates that wait for somebody who may be cancelling an event of theirs. */
  readonly busy: ReadonlySet<string>
}

/** Aggregates that are left out for a moment: however many events they have, the others are found. */
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

  /** Those whose moment is over are looked for again. Answers how many. */
  letGo(): number {
    const over = [...this.#until].filter(([, until]) => until <= this.#clock.now())
    for (const [aggregate] of over) this.#until.delete(aggregate)
    return over.length
  }
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
    busy,
  }
}
