import { RELAY_BATCH_BYTES, RELAY_BATCH_EVENTS } from '../limits.ts'
import type { Outbox, StoredEvent } from '../store/outbox.ts'
import type { Batch, End } from './batch.ts'
import type { ShardLeases } from './shard-leases.ts'
import { ReadSize } from './read-size.ts'
import { Seals } from './seals.ts'
import type { Shard } from './shard.ts'

const PER_SHARD_MIN = 8

/** One request for events: the next events of each shard. */
export interface Asked {
  readonly from: readonly Shard[]
  readonly perShard: number
  readonly limit: number
}

/** Reads ahead of the cursors, as many events of each shard as one batch may have by number and bytes. */
export class Reading {
  readonly #outbox: Outbox
  readonly #destination: string
  readonly #leases: ShardLeases
  /** How many shards had more events than the last read took. */
  #busy = 0
  readonly #size = new ReadSize()
  readonly #seals: Seals
  #turn = 0

  constructor(outbox: Outbox, destination: string, shardLeases: ShardLeases) {
    this.#outbox = outbox
    this.#destination = destination
    this.#leases = shardLeases
    this.#seals = new Seals(shardLeases)
  }

  /** How many events fit one batch. */
  get most(): number {
    return this.#size.limit(RELAY_BATCH_EVENTS, RELAY_BATCH_BYTES)
  }

  /** The next request for events of these shards. */
  next(shards: readonly Shard[], room: number): Asked {
    // Begin with another shard each time, because a full batch cuts off the last ones.
    const from = shards
      .slice(this.#turn % (shards.length || 1))
      .concat(shards.slice(0, this.#turn % (shards.length || 1)))
    this.#turn++
    const limit = Math.max(PER_SHARD_MIN, Math.min(this.most, room))
    const perShard = Math.max(PER_SHARD_MIN, Math.ceil(limit / (this.#busy || from.length || 1)))
    return { from, perShard, limit }
  }

  async read({ from, perShard, limit }: Asked): Promise<Batch> {
    const read = await this.#outbox.read({
      destination: this.#destination,
      from: from.map(({ shard, readTo, readFrom }) => ({ shard, cursor: readTo, segment: readFrom })),
      perShard,
      limit,
      bytes: RELAY_BATCH_BYTES,
      ...this.#seals.known,
    })
    const { cut, free } = read
    const events = await this.#seals.trusted(read)
    if (free) this.#leases.sawFree()
    const ends = endsOf(events, from)
    for (const [shard, list] of ends) shard.readUpTo(list.at(-1) as End)
    // If nothing was cut off, all events of sealed segments were read. Those segments need not be read again.
    const count = (shard: Shard): number => ends.get(shard)?.reduce((sum, end) => sum + end.events, 0) ?? 0
    this.#seals.learn(read, cut ? [] : from.filter((shard) => count(shard) < perShard))
    return { events, ends }
  }

  /** Sets the size of the next reads by the events of this one. */
  learn({ perShard }: Asked, { events, ends }: Batch): void {
    if (events.length === 0) return
    this.#size.learn(events)
    const counts = new Map<number, number>()
    for (const event of events) counts.set(event.shard, (counts.get(event.shard) ?? 0) + 1)
    const full = [...counts.values()].filter((count) => count >= perShard).length
    this.#busy = Math.max(full, Math.min(ends.size, 1))
  }
}

/** Events come shard by shard, in order. */
function endsOf(events: readonly StoredEvent[], from: readonly Shard[]): Map<Shard, End[]> {
  const byNumber = new Map(from.map((shard) => [shard.shard, shard]))
  const ends = new Map<Shard, End[]>()
  let number = -1
  let list: End[] = []
  let last: End | undefined
  for (const { shard, seq, segment, id } of events) {
    if (shard !== number) {
      number = shard
      const of = byNumber.get(shard) as Shard
      list = ends.get(of) ?? []
      ends.set(of, list)
      last = list.at(-1)
    }
    if (last?.segment === segment) {
      last.seq = seq
      last.id = id
      last.events++
    } else list.push((last = { segment, seq, id, events: 1 }))
  }
  return ends
}
