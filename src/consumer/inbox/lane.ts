import { CONSUMER_SUSPECTS_MAX } from '../../limits.ts'
import type { Arrival } from './arrival.ts'

export interface BatchSoFar {
  /** The first message of the batch. Undefined: the batch is empty. */
  readonly first: Arrival | undefined
  /** Whether messages that may have crashed a process may run now. */
  readonly suspects: boolean
}

/** The most messages that may share a batch with this one. */
export function togetherMax({ suspect }: Arrival, max: number): number {
  return suspect ? Math.min(max, CONSUMER_SUSPECTS_MAX) : max
}

/** The messages of one aggregate, which run one after the other. */
export class Lane {
  readonly key: string | null
  /** How many of its messages are running. */
  out = 0
  /** Whether the backlog has the lane in its list of lanes to pick from. */
  listed = false
  /** Whether the last `take` took nothing because the next message must not run in the same batch as the others. */
  awaitsTurn = false
  #queue: Arrival[] = []

  constructor(key: string | null) {
    this.key = key
  }

  get size(): number {
    return this.#queue.length
  }

  /** Whether the lane's first message failed before, in this process or another. */
  get failed(): boolean {
    const [first] = this.#queue
    return first !== undefined && (first.alone || first.delivery.redelivered)
  }

  /** Inserts the message in the order of arrival, so that a returned message gets its old place. */
  add(arrival: Arrival): void {
    let index = this.#queue.length
    while (index > 0 && (this.#queue[index - 1] as Arrival).seq > arrival.seq) index--
    this.#queue.splice(index, 0, arrival)
  }

  /** Returns false if the message is running. */
  remove(arrival: Arrival): boolean {
    const index = this.#queue.indexOf(arrival)
    if (index >= 0) this.#queue.splice(index, 1)
    return index >= 0
  }

  /**
   * Takes the messages that may run now, in order, at most `max`. A message that waits for a retry blocks everything
   * behind it. An `ordered` message that is early blocks only its successors. A message marked `alone` runs alone, and
   * suspects run only with suspects.
   */
  take(max: number, now: number, batch: BatchSoFar): Arrival[] {
    this.awaitsTurn = false
    if (this.out > 0) return []
    const taken: Arrival[] = []
    const missing = new Set<string>()
    for (const arrival of this.#ordered()) {
      if (taken.length >= togetherMax(arrival, max)) break
      const { id, previous } = arrival.item
      const follows = previous !== null && missing.has(previous)
      if (follows || (arrival.earlySince !== null && arrival.notBefore > now)) {
        missing.add(id)
        continue
      }
      if (arrival.notBefore > now) break
      if (!mayJoin(arrival, taken[0] ?? batch.first) || (arrival.suspect && !batch.suspects)) {
        this.awaitsTurn = taken.length === 0
        break
      }
      taken.push(arrival)
    }
    this.out += taken.length
    if (taken.length === this.#queue.length) this.#queue = []
    else if (taken.length > 0) this.#queue = this.#queue.filter((arrival) => !taken.includes(arrival))
    return taken
  }

  /** When the next message may run. Infinity: no message waits for a time. Messages behind a retry wait with it. */
  nextAt(): number {
    let next = Infinity
    for (const { notBefore, earlySince } of this.#ordered()) {
      next = Math.min(next, notBefore)
      if (earlySince === null || notBefore === 0) break
    }
    return next
  }

  /** A message was applied, so its successor may run. */
  progress(id: string): void {
    for (const arrival of this.#queue) if (arrival.item.previous === id) arrival.notBefore = 0
  }

  /** The messages in the order of arrival, but each after its predecessor. */
  #ordered(): readonly Arrival[] {
    if (!this.#queue.some(({ item }) => item.previous !== null)) return this.#queue
    const byId = new Map(this.#queue.map((arrival) => [arrival.item.id, arrival]))
    const ordered: Arrival[] = []
    for (const arrival of this.#queue) {
      // Follow the chain back to its first message. Each message is placed once.
      const chain: Arrival[] = []
      for (let at: Arrival | undefined = arrival; at && byId.delete(at.item.id);) {
        chain.push(at)
        at = at.item.previous === null ? undefined : byId.get(at.item.previous)
      }
      ordered.push(...chain.toReversed())
    }
    return ordered
  }
}

function mayJoin(arrival: Arrival, first: Arrival | undefined): boolean {
  return !first || (!arrival.alone && !first.alone && arrival.suspect === first.suspect)
}
