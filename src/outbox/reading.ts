import { RELAY_BATCH_BYTES, RELAY_BATCH_EVENTS } from '../limits.ts'
import type { Outbox, StoredEvent } from '../store/outbox.ts'
import type { Batch, End } from './batch.ts'
import type { Keeper } from './keeper.ts'
import type { Shard } from './shard.ts'

const PER_SHARD_MIN = 8

/** Reads ahead of the cursors: as many events of each shard as fit one batch, by number and by bytes. */
export class Reading {
  readonly #outbox: Outbox
  readonly #destination: string
  readonly #keeper: Keeper
  /** Shards that had more to give, last time. */
  #busy = 0
  #bytesEach = 1_024
  #turn = 0

  constructor(outbox: Outbox, destination: string, keeper: Keeper) {
    this.#outbox = outbox
    this.#destination = destination
    this.#keeper = keeper
  }

  /** Of every shard, but for those that are tried alone. */
  async next(): Promise<Batch> {
    const shards = [...this.#keeper.shards.values()].filter(({ suspect }) => suspect === null)
    // Another one first each time: the last ones of a full batch are cut off.
    const from = shards
      .slice(this.#turn % (shards.length || 1))
      .concat(shards.slice(0, this.#turn % (shards.length || 1)))
    this.#turn++
    const limit = Math.max(PER_SHARD_MIN, Math.min(RELAY_BATCH_EVENTS, Math.floor(RELAY_BATCH_BYTES / this.#bytesEach)))
    const perShard = Math.max(PER_SHARD_MIN, Math.ceil(limit / (this.#busy || from.length || 1)))
    const batch = await this.#read(from, perShard, limit)
    this.#learn(batch, perShard)
    return batch
  }

  /** The first events of one shard. */
  part(shard: Shard, events: number): Promise<Batch> {
    return this.#read([shard], events, events)
  }

  async #read(from: readonly Shard[], perShard: number, limit: number): Promise<Batch> {
    const { events, free, sealed } = await this.#outbox.read({
      destination: this.#destination,
      from: from.map(({ shard, readTo, readFrom }) => ({ shard, cursor: readTo, segment: readFrom })),
      perShard,
      limit,
    })
    if (free) this.#keeper.sawFree()
    const ends = endsOf(events, from)
    for (const [shard, list] of ends) {
      const { seq, segment } = list.at(-1) as End
      shard.readTo = seq
      shard.readFrom = segment
    }
    // Whatever a shard has in sealed segments was seen, unless it was cut off: they need not be looked at again.
    if (events.length < limit) {
      for (const shard of from) {
        const read = ends.get(shard)?.reduce((sum, end) => sum + end.events, 0) ?? 0
        if (read < perShard) shard.readFrom = Math.max(shard.readFrom, sealed + 1)
      }
    }
    return { events, ends }
  }

  #learn({ events, ends }: Batch, perShard: number): void {
    if (events.length === 0) return
    let bytes = 0
    const counts = new Map<number, number>()
    for (const event of events) {
      bytes += event.payload?.length ?? 0
      counts.set(event.shard, (counts.get(event.shard) ?? 0) + 1)
    }
    this.#bytesEach = Math.max(1, bytes / events.length)
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
  for (const { shard, seq, segment } of events) {
    if (shard !== number) {
      number = shard
      const of = byNumber.get(shard) as Shard
      list = ends.get(of) ?? []
      ends.set(of, list)
      last = list.at(-1)
    }
    if (last?.segment === segment) {
      last.seq = seq
      last.events++
    } else list.push((last = { segment, seq, events: 1 }))
  }
  return ends
}

/** The same batch without the shards that were lost meanwhile. */
export function stillOurs(batch: Batch, keeper: Keeper): Batch {
  const lost = [...batch.ends.keys()].filter((shard) => !keeper.owns(shard))
  if (lost.length === 0) return batch
  const gone = new Set(lost.map(({ shard }) => shard))
  return {
    events: batch.events.filter((event: StoredEvent) => !gone.has(event.shard)),
    ends: new Map([...batch.ends].filter(([shard]) => keeper.owns(shard))),
  }
}
