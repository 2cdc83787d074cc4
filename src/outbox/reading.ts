import { RELAY_BATCH_BYTES, RELAY_BATCH_EVENTS } from '../limits.ts'
import type { Outbox, StoredEvent } from '../store/outbox.ts'
import type { Batch } from './batch.ts'
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
    const { events, free } = await this.#outbox.read({
      destination: this.#destination,
      from: from.map(({ shard, readTo }) => ({ shard, cursor: readTo })),
      perShard,
      limit,
    })
    if (free) this.#keeper.sawFree()
    const byNumber = new Map(from.map((shard) => [shard.shard, shard]))
    const ends = new Map<Shard, number>()
    for (const { shard, seq } of events) ends.set(byNumber.get(shard) as Shard, seq)
    for (const [shard, end] of ends) shard.readTo = end
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
