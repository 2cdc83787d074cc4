import type { EventsRead, ReadEventsParams, Seal, StoredEvent } from '../store/outbox.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { Shard } from './shard.ts'

/**
 * What the database told of itself: which sealed segments need not be looked at again, and which server answered. A
 * database that was put back may write into those segments once more, and give numbers again that were read.
 */
export class Seals {
  readonly #leases: ShardLeases
  /** The last one there was: of a database that has it, so are all before it. */
  #last: Seal | null = null
  #server: string | null = null

  constructor(shardLeases: ShardLeases) {
    this.#leases = shardLeases
  }

  get known(): Required<Pick<ReadEventsParams, 'seal' | 'server'>> {
    return { seal: this.#last, server: this.#server }
  }

  /**
   * The events of a read that may be sent. Of another server than before only those of shards of which it knows whatever
   * was known: else there may be others before them, under numbers that were passed.
   */
  async trusted({ events, server }: Pick<EventsRead, 'events' | 'server'>): Promise<readonly StoredEvent[]> {
    if (server === null) return events
    await this.#leases.prove()
    this.#server = server
    return events.filter(({ shard }) => this.#leases.shards.has(shard))
  }

  /** `through`: of these shards the read has seen whatever there is. */
  learn({ seal, isKnown }: Pick<EventsRead, 'seal' | 'isKnown'>, through: readonly Shard[]): void {
    if (!isKnown) for (const shard of this.#leases.shards.values()) shard.readFrom = shard.segment
    if (seal || !isKnown) this.#last = seal
    if (seal) for (const shard of through) shard.readFrom = Math.max(shard.readFrom, seal.segment + 1)
  }
}
