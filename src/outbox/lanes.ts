import type { Item } from './item.ts'
import type { Shard } from './shard.ts'

/** The events of one aggregate, in order. */
interface Lane {
  queue: Item[]
  head: number
  underWay: number
  /** An event of the lane failed. Later events that are still under way were not sent. True: the event was parked. */
  failed: boolean | undefined
  /** Whether the lane is in the queue. */
  offered: boolean
  /** The last hand-out that took events from this lane. */
  taken: number
}

/** Events that wait to be sent: one lane for each aggregate, and a queue of lanes that are served in turn. */
export class Lanes {
  readonly #lanes = new Map<string, Lane>()
  #line: Lane[] = []
  #first = 0
  #hands = 0
  /** How many events wait. */
  queued = 0

  get isEmpty(): boolean {
    return this.#lanes.size === 0
  }

  /** Whether no event can be handed out now. */
  get isDry(): boolean {
    while (this.#first < this.#line.length && !isServable(this.#line[this.#first] as Lane)) this.#skip()
    return this.#first >= this.#line.length
  }

  add(item: Item): void {
    const id = item.stored.aggregateId
    let lane = this.#lanes.get(id)
    if (!lane) {
      lane = { queue: [], head: 0, underWay: 0, failed: undefined, offered: false, taken: 0 }
      this.#lanes.set(id, lane)
    }
    lane.queue.push(item)
    this.queued++
    this.#offer(lane)
  }

  /** The next events, one of each lane in turn. `several`: a lane may have more than one event under way, in order. */
  take(limit: number, several: boolean): Item[] {
    const taken: Item[] = []
    const hand = ++this.#hands
    while (taken.length < limit && this.#first < this.#line.length) {
      const lane = this.#line[this.#first] as Lane
      this.#skip()
      const busy = lane.underWay > 0 && !(several && lane.taken === hand)
      const item = lane.queue[lane.head]
      if (busy || !item) continue
      lane.head++
      lane.underWay++
      lane.taken = hand
      item.state = 'underWay'
      taken.push(item)
      if (several && lane.head < lane.queue.length) this.#enter(lane)
    }
    this.queued -= taken.length
    return taken
  }

  /** The event is decided. */
  settle({ stored: { aggregateId } }: Item): void {
    const lane = this.#lanes.get(aggregateId)
    if (!lane) return
    lane.underWay--
    this.#tidy(aggregateId, lane)
  }

  /** Puts unsent events back at the front of their lanes. `first`: these lanes are served next. */
  back(items: readonly Item[], first: boolean): void {
    const byLane = new Map<string, Item[]>()
    for (const item of items) {
      item.state = 'open'
      const list = byLane.get(item.stored.aggregateId)
      if (list) list.push(item)
      else byLane.set(item.stored.aggregateId, [item])
    }
    const lanes: Lane[] = []
    for (const [id, list] of byLane) {
      const lane = this.#lanes.get(id)
      if (!lane) continue
      lane.queue = [...list, ...lane.queue.slice(lane.head)].sort(inOrder)
      lane.head = 0
      lane.underWay -= list.length
      this.queued += list.length
      if (lane.underWay === 0 && !lane.offered && first) lanes.push(lane)
      else this.#offer(lane)
    }
    if (lanes.length === 0) return
    for (const lane of lanes) lane.offered = true
    this.#line = [...lanes, ...this.#line.slice(this.#first)]
    this.#first = 0
  }

  /** The event failed and is held. Takes out the events that wait in its lane. */
  fail(item: Item, parked: boolean): Item[] {
    const lane = this.#lanes.get(item.stored.aggregateId)
    if (!lane) return []
    const rest = lane.queue.slice(lane.head)
    lane.queue = []
    lane.head = 0
    lane.failed = parked
    this.queued -= rest.length
    this.settle(item)
    return rest
  }

  /** Whether its lane failed while the event was under way. True: the lane was parked. Undefined: it did not fail. */
  failureOf({ stored: { aggregateId } }: Item): boolean | undefined {
    return this.#lanes.get(aggregateId)?.failed
  }

  /** Takes out the waiting events of these shards. */
  drop(shards: ReadonlySet<Shard>): void {
    for (const [id, lane] of this.#lanes) {
      const rest = lane.queue.slice(lane.head)
      const left = rest.filter(({ shard }) => !shards.has(shard))
      if (left.length === rest.length) continue
      this.queued -= rest.length - left.length
      lane.queue = left
      lane.head = 0
      this.#tidy(id, lane)
    }
  }

  #tidy(id: string, lane: Lane): void {
    if (lane.underWay > 0) return
    lane.failed = undefined
    if (lane.head < lane.queue.length) this.#offer(lane)
    else this.#lanes.delete(id)
  }

  #offer(lane: Lane): void {
    if (!lane.offered && lane.underWay === 0 && lane.head < lane.queue.length) this.#enter(lane)
  }

  #enter(lane: Lane): void {
    lane.offered = true
    this.#line.push(lane)
  }

  #skip(): void {
    ;(this.#line[this.#first] as Lane).offered = false
    this.#first++
    if (this.#first < 1_024 || this.#first * 2 < this.#line.length) return
    this.#line = this.#line.slice(this.#first)
    this.#first = 0
  }
}

function isServable(lane: Lane): boolean {
  return lane.underWay === 0 && lane.head < lane.queue.length
}

function inOrder(a: Item, b: Item): number {
  return a.stored.seq - b.stored.seq
}
