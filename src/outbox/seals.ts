import type { EventsRead, ReadEventsParams, Seal, StoredEvent } from '../store/outbox.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { Shard } from './shard.ts'

/**
 * What the database said about itself: which sealed segments need not be read again, and which server answered. A
 * restored database may write into those segments again, and may give the same numbers to other events.
 */
export class Seals {
  readonly #leases: ShardLeases
  /** The last seal. If the database has it, the database also has every seal before it. */
  #last: Seal | null = null
  #server: string | null = null

  constructor(shardLeases: ShardLeases) {
    this.#leases = shardLeases
  }

  get known(): Required<Pick<ReadEventsParams, 'seal' | 'server'>> {
    return { seal: this.#last, server: this.#server }
  }

  /**
   * The events of a read that may be sent. If another server answered, these are only events of shards whose state the
   * server knows completely. In other shards, earlier events may have numbers that were already passed.
   */
  async trusted({ events, server }: Pick<EventsRead, 'events' | 'server'>): Promise<readonly StoredEvent[]> {
    if (server === null) return events
    await this.#leases.prove()
    this.#server = server
    return events.filter(({ shard }) => this.#leases.shards.has(shard))
  }

  /** `through` are shards whose events were all read. */
  learn({ seal, isKnown }: Pick<EventsRead, 'seal' | 'isKnown'>, through: readonly Shard[]): void {
    if (!isKnown) for (const shard of this.#leases.shards.values()) shard.readFrom = shard.segment
    if (seal || !isKnown) this.#last = seal
    if (seal) for (const shard of through) shard.readFrom = Math.max(shard.readFrom, seal.segment + 1)
  }
}
