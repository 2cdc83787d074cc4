import type { Arrival } from './arrival.ts'
import { Lane, togetherMax } from './lane.ts'

/**
 * Messages that were delivered and are not settled yet. Two batches never have messages of the same aggregate. Within a
 * batch they run in order.
 */
export class Backlog {
  readonly #lanes = new Map<string, Lane>()
  readonly #laneOf = new Map<Arrival, Lane>()
  readonly #byId = new Map<string, Arrival>()
  /** Lanes to pick from, in turn. */
  #listed: Lane[] = []
  #head = 0
  /** Lanes in which every message waits for a time. */
  readonly #resting = new Set<Lane>()

  #bytes = 0

  /** How many messages are held. */
  get size(): number {
    return this.#byId.size
  }

  /** The bytes that the messages keep in memory. */
  get bytes(): number {
    return this.#bytes
  }

  arrivals(): Iterable<Arrival> {
    return this.#byId.values()
  }

  /**
   * Adds a message. If it is already held, only its deliveries are added, to be settled with it. Returns true for a new
   * one.
   */
  add(arrival: Arrival): boolean {
    const known = this.#byId.get(arrival.item.id)
    if (known) {
      known.twins.push(...arrival.deliveries)
      return false
    }
    const lane = this.#laneFor(arrival)
    this.#byId.set(arrival.item.id, arrival)
    this.#bytes += arrival.bytes
    this.#laneOf.set(arrival, lane)
    lane.add(arrival)
    this.#list(lane)
    return true
  }

  /**
   * Moves lanes with untried messages to the front. A message that failed before does not show whether everything
   * fails.
   */
  untriedFirst(): void {
    const waiting = this.#listed.slice(this.#head)
    this.#listed = [...waiting.filter((lane) => !lane.failed), ...waiting.filter((lane) => lane.failed)]
    this.#head = 0
  }

  /** Picks the next batch. Every message of it must be passed to `done` or `later` in the end. */
  pick(max: number, now: number, suspects: boolean): Arrival[] {
    for (const lane of this.#resting) {
      if (lane.nextAt() <= now) this.#list(lane)
    }
    const batch: Arrival[] = []
    const passed: Lane[] = []
    const turned: Lane[] = []
    while (this.#head < this.#listed.length) {
      const [first] = batch
      const room = first ? togetherMax(first, max) - batch.length : max
      // Waiting suspects are next to each other. The first other message ends their batch, and keeps its place.
      if (room <= 0 || first?.alone || (first?.suspect && turned.length > 0)) break
      const lane = this.#listed[this.#head++] as Lane
      lane.listed = false
      const taken = lane.take(room, now, { first, suspects })
      batch.push(...taken)
      if (taken.length > 0) continue
      if (lane.awaitsTurn) turned.push(lane)
      else if (lane.nextAt() > now) this.#resting.add(lane)
      else passed.push(lane)
    }
    this.#compact()
    for (const lane of passed) this.#list(lane)
    this.#listFirst(turned)
    return batch
  }

  /** Removes settled messages. `applied`: their successors may run. */
  done(arrivals: readonly Arrival[], applied: boolean): void {
    for (const arrival of arrivals) {
      const lane = this.#laneOf.get(arrival)
      if (!lane) continue
      lane.out--
      this.#forget(arrival, lane)
      if (applied) lane.progress(arrival.item.id)
      this.#list(lane)
    }
  }

  /** Returns messages that run again, each when its time has come. A message that was dropped is added again. */
  later(arrivals: readonly Arrival[]): void {
    for (const arrival of arrivals) {
      const lane = this.#laneOf.get(arrival)
      if (!lane) {
        this.add(arrival)
        continue
      }
      lane.out--
      lane.add(arrival)
      if (arrival.suspect && lane.out === 0 && !lane.listed) this.#listFirst([lane])
      else this.#list(lane)
    }
  }

  /** Lets these messages run now. */
  ready(arrivals: readonly Arrival[]): void {
    for (const arrival of arrivals) {
      arrival.notBefore = 0
      const lane = this.#laneOf.get(arrival)
      if (lane) this.#list(lane)
    }
  }

  /** Removes matching messages that are not running. Returns them in the order of arrival. */
  drop(matches: (arrival: Arrival) => boolean): Arrival[] {
    const dropped: Arrival[] = []
    for (const arrival of this.#byId.values()) {
      const lane = this.#laneOf.get(arrival) as Lane
      if (!matches(arrival) || !lane.remove(arrival)) continue
      this.#forget(arrival, lane)
      dropped.push(arrival)
    }
    return dropped.sort((a, b) => a.seq - b.seq)
  }

  /** When the next waiting message may run. Infinity: none waits. */
  nextAt(): number {
    let next = Infinity
    for (const lane of this.#resting) next = Math.min(next, lane.nextAt())
    return next
  }

  #laneFor({ item: { aggregate, source } }: Arrival): Lane {
    if (aggregate === null) return new Lane(null)
    const key = `${source.length}:${source}${aggregate}`
    let lane = this.#lanes.get(key)
    if (!lane) {
      lane = new Lane(key)
      this.#lanes.set(key, lane)
    }
    return lane
  }

  #forget(arrival: Arrival, lane: Lane): void {
    this.#laneOf.delete(arrival)
    this.#byId.delete(arrival.item.id)
    this.#bytes -= arrival.bytes
    if (lane.size > 0 || lane.out > 0) return
    if (lane.key !== null) this.#lanes.delete(lane.key)
    this.#resting.delete(lane)
  }

  #list(lane: Lane): void {
    this.#resting.delete(lane)
    if (lane.listed || lane.out > 0 || lane.size === 0) return
    lane.listed = true
    this.#listed.push(lane)
  }

  /** Puts lanes in front of all others. At the end, they could wait for ever, and a log's position cannot pass them. */
  #listFirst(lanes: readonly Lane[]): void {
    if (lanes.length === 0) return
    for (const lane of lanes) {
      this.#resting.delete(lane)
      lane.listed = true
    }
    this.#listed = [...lanes, ...this.#listed.slice(this.#head)]
    this.#head = 0
  }

  #compact(): void {
    if (this.#head === this.#listed.length) this.#listed = []
    else if (this.#head > 1_024) this.#listed = this.#listed.slice(this.#head)
    else return
    this.#head = 0
  }
}
