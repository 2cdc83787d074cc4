import { RELAY_BATCH_BYTES, RELAY_DUE_BEHIND, RELAY_DUE_HEADS, RELAY_POLL_BUSY_MS } from '../limits.ts'
import type { Due, HeldEvent, HoldParams } from '../store/outbox.ts'
import { backoffMs } from './backoff.ts'
import { behind } from './holding.ts'
import { heldItems, isDecided, type Item } from './item.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { Ledger } from './ledger.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'
import { BusyAggregates, take } from './taking.ts'
import { culprit, partOf } from './tries.ts'

const DUE_MS_MIN = 20
/** Due events in the hand are settled first. After this time, the relay looks for more in any case. */
const IN_HAND_MS = 1_000
const HAND_MAX = 4_096
/** A read finds the events in the hand again. While they fill half of a read, the relay does not look. */
const HAND_BYTES_MAX: number = RELAY_BATCH_BYTES / 2

export interface Fetched {
  /** Events that may be sent with all others. */
  readonly ready: readonly Item[]
  /** Events that were under way when a relay died. They are sent while nothing else is under way. */
  readonly alone: readonly HeldEvent[]
  /** Events that are decided without being sent. */
  readonly aside: readonly Item[]
  /** When to look again. Null: unknown. */
  readonly nextInMs: number | null
}

/** Held events that are due and being sent. Events of one aggregate are sent one after the other. */
export class Hand {
  readonly #parts: RelayParts
  readonly #leases: ShardLeases
  readonly #ledger: Ledger
  readonly #items = new Set<Item>()
  readonly #aggregates = new Map<string, number>()
  /** The relay does not look for due events before this time. Infinity: there are none. */
  dueAt = 0
  #bytes = 0
  readonly #busy: BusyAggregates

  constructor(parts: RelayParts, shardLeases: ShardLeases, ledger: Ledger) {
    this.#parts = parts
    this.#busy = new BusyAggregates(parts.clock)
    this.#leases = shardLeases
    this.#ledger = ledger
  }

  async fetch(): Promise<Fetched> {
    this.dueAt = Infinity
    try {
      const fetched = await this.#look()
      const { nextInMs } = fetched
      // More events may have become due meanwhile. Then the time is 0.
      if (nextInMs !== null) this.dueAt = Math.min(this.dueAt, this.#parts.clock.now() + nextInMs)
      return fetched
    } catch (error) {
      this.dueAt = 0
      throw error
    }
  }

  async #look(): Promise<Fetched> {
    const { outbox, sink, source, wants } = this.#parts
    const { shards } = this.#leases
    const asked = [...shards.values()].filter(({ suspect, leaving }) => suspect === null && !leaving)
    const full = this.#items.size >= HAND_MAX || this.#bytes >= HAND_BYTES_MAX
    if (full || asked.length === 0) return { ...NOTHING, nextInMs: IN_HAND_MS }
    const again = this.#busy.letGo()
    const due = await outbox.due({
      destination: sink.name,
      shards: asked.map(({ shard }) => shard),
      limit: RELAY_DUE_HEADS + again,
      behind: RELAY_DUE_BEHIND,
      bytes: RELAY_BATCH_BYTES,
      without: [...this.#aggregates.keys(), ...this.#busy.all],
    })
    if (due.events.length === 0) return { ...NOTHING, nextInMs: this.#nextInMs(due) }
    const found = due.events.filter((event) => shards.has(event.shard) && !this.#aggregates.has(event.aggregateId))
    if (found.length === 0) return { ...NOTHING, nextInMs: IN_HAND_MS }
    const wanted = found.filter(({ type }) => wants(type))
    const { ready: events, cancelled, busy } = await take(outbox, wanted)
    this.#busy.add(busy)
    // Wait until the passed events are written, because they may come before these in their aggregates.
    if (wanted.length < found.length || cancelled.length > 0) {
      const passed = heldItems([...found.filter(({ type }) => !wants(type)), ...cancelled], shards, source)
      for (const item of passed) item.state = 'passed'
      this.#add(passed)
      return { ...NOTHING, aside: passed, nextInMs: 0 }
    }
    // The next read leaves the busy aggregates out.
    if (events.length === 0) return { ...NOTHING, nextInMs: 0 }
    const late = events.filter((event) => event.state === 'delayed' && this.#isBlocked(event))
    const part = partOf(events.filter((event) => !late.includes(event)))
    const given = part.flatMap((event) => culprit(this.#parts, event) ?? [])
    const aside = [
      ...this.#setAside(late, (event) => behind(event, this.#isParked(event))),
      ...this.#setAside(part, ({ shard, seq }) => given.find((of) => of.shard === shard && of.seq === seq)),
    ]
    if (given.length > 0 || part.length === 0) return { ...NOTHING, aside, nextInMs: 0 }
    if ((part[0] as HeldEvent).tried > 0) return { ready: [], alone: part, aside, nextInMs: 0 }
    const ready = heldItems(await this.announce(part), shards, source)
    this.#add(ready)
    return { ready, alone: [], aside, nextInMs: 0 }
  }

  /** Counts the attempts before the events are sent. If an event kills this relay, the next relay knows. */
  async announce(part: readonly HeldEvent[]): Promise<readonly HeldEvent[]> {
    const { random, sink } = this.#parts
    const numbers = new Set(part.map(({ shard }) => shard))
    const leases = [...this.#leases.shards.values()].filter(({ shard }) => numbers.has(shard))
    const events = part.map((event) => {
      const tried = event.tried + 1
      // The next owner can send other events before it tries this one again.
      return { shard: event.shard, seq: event.seq, tried, dueInMs: tried > 2 ? backoffMs(random, tried) : null }
    })
    const ours = await this.#ledger.announce({ destination: sink.name, leases, events })
    return part.filter(({ shard }) => ours.has(shard))
  }

  /** These events were settled, or their shards are not ours any more. */
  release(items: readonly Item[]): void {
    for (const item of items) {
      if (!this.#items.delete(item)) continue
      const { aggregateId, payload } = item.stored
      this.#bytes -= payload?.length ?? 0
      const left = (this.#aggregates.get(aggregateId) ?? 1) - 1
      if (left > 0) this.#aggregates.set(aggregateId, left)
      else this.#aggregates.delete(aggregateId)
    }
  }

  /** Events of these shards that are undecided and stay so. */
  undecidedOf(shards: ReadonlySet<Shard>): Item[] {
    return [...this.#items].filter((item) => shards.has(item.shard) && !isDecided(item))
  }

  releaseLost(): void {
    this.release([...this.#items].filter(({ shard }) => !this.#leases.owns(shard)))
  }

  /** Never 0, because due events that are left out, or cannot be read, would make the relay read without a pause. */
  #nextInMs({ nextInMs }: Due): number | null {
    if (nextInMs === null) return null
    if (nextInMs > 0) return Math.max(nextInMs, DUE_MS_MIN)
    if (this.#busy.some) return RELAY_POLL_BUSY_MS
    return this.#aggregates.size > 0 ? IN_HAND_MS : DUE_MS_MIN
  }

  #add(items: readonly Item[]): void {
    for (const item of items) {
      const { aggregateId, payload } = item.stored
      this.#items.add(item)
      this.#bytes += payload?.length ?? 0
      this.#aggregates.set(aggregateId, (this.#aggregates.get(aggregateId) ?? 0) + 1)
    }
  }

  #setAside(events: readonly HeldEvent[], how: (event: HeldEvent) => HoldParams | undefined): Item[] {
    const items = heldItems(events, this.#leases.shards, this.#parts.source)
    const aside = items.filter((item) => (item.hold = how(item.held as HeldEvent) ?? null) !== null)
    for (const item of aside) item.state = 'aside'
    this.#add(aside)
    return aside
  }

  #isBlocked({ shard, aggregateId }: HeldEvent): boolean {
    return this.#leases.shards.get(shard)?.blocked.has(aggregateId) === true
  }

  #isParked({ shard, aggregateId }: HeldEvent): boolean {
    return this.#leases.shards.get(shard)?.blocked.get(aggregateId) === true
  }
}

const NOTHING: Fetched = { ready: [], alone: [], aside: [], nextInMs: null }
