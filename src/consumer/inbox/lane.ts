import { CONSUMER_SUSPECTS_MAX } from '../../limits.ts'
import type { Arrival } from './arrival.ts'

export interface Company {
  /** Somebody of the batch that it would join; undefined: nobody is there yet. */
  readonly first: Arrival | undefined
  /** Those that may have ended a process may run. */
  readonly suspects: boolean
}

/** How many run together with this one. */
export function togetherMax({ suspect }: Arrival, max: number): number {
  return suspect ? Math.min(max, CONSUMER_SUSPECTS_MAX) : max
}

/** Arrivals of one aggregate, one after the other. */
export class Lane {
  readonly key: string | null
  /** How many of its arrivals are under way. */
  out = 0
  /** In the line of those that may be picked. */
  listed = false
  /** Nothing was taken the last time, because whoever is next must not run with those who were there. */
  awaitsTurn = false
  #queue: Arrival[] = []

  constructor(key: string | null) {
    this.key = key
  }

  get size(): number {
    return this.#queue.length
  }

  /** Whoever is first in it failed before, here or with whom it was delivered to. */
  get failed(): boolean {
    const [first] = this.#queue
    return first !== undefined && (first.alone || first.delivery.redelivered)
  }

  /** At its place in the order of arrival: what comes back waits where it was. */
  add(arrival: Arrival): void {
    let index = this.#queue.length
    while (index > 0 && (this.#queue[index - 1] as Arrival).seq > arrival.seq) index--
    this.#queue.splice(index, 0, arrival)
  }

  /** False: it is under way. */
  remove(arrival: Arrival): boolean {
    const index = this.#queue.indexOf(arrival)
    if (index >= 0) this.#queue.splice(index, 1)
    return index >= 0
  }

  /**
   * The arrivals that may run now, in the order they must run, at most `max`. Whoever waits for a retry holds up
   * everything behind it; an `ordered` one that is early holds up only its successors. One that must run alone does, and
   * suspects run with suspects.
   */
  take(max: number, now: number, company: Company): Arrival[] {
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
      if (!mayJoin(arrival, taken[0] ?? company.first) || (arrival.suspect && !company.suspects)) {
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

  /** When somebody in it may run; Infinity: nobody is waiting for a time. What is behind a retry waits with it. */
  nextAt(): number {
    let next = Infinity
    for (const { notBefore, earlySince } of this.#ordered()) {
      next = Math.min(next, notBefore)
      if (earlySince === null || notBefore === 0) break
    }
    return next
  }

  /** A message was applied: whoever waited for it may run. */
  progress(id: string): void {
    for (const arrival of this.#queue) if (arrival.item.previous === id) arrival.notBefore = 0
  }

  /** In the order of arrival, but for predecessors, which come first. */
  #ordered(): readonly Arrival[] {
    if (!this.#queue.some(({ item }) => item.previous !== null)) return this.#queue
    const byId = new Map(this.#queue.map((arrival) => [arrival.item.id, arrival]))
    const ordered: Arrival[] = []
    for (const arrival of this.#queue) {
      // A chain from its end to its beginning; each is placed once.
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
