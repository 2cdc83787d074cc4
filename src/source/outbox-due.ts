import { RELAY_BATCH_BYTES, RELAY_POLL_BUSY_MS } from '../limits.ts'
import type { Shard } from '../outbox/shard.ts'
import type { ShardLeases } from '../outbox/shard-leases.ts'
import { BusyAggregates, take } from '../outbox/taking.ts'
import type { HeldEvent, StoredEvent } from '../store/outbox.ts'
import type { OutboxSourceParts } from './outbox-parts.ts'

const DUE_LIMIT = 64
/** If all due events are in hand already, the next read comes after this pause. */
const IN_HAND_MS = 1_000
/** How many events behind each due event are read with it. */
const DUE_BEHIND = 16

/** Reads held events of one consumer that are due. */
export class OutboxDue {
  readonly #parts: Pick<OutboxSourceParts, 'outbox' | 'clock'>
  readonly #destination: string
  readonly #leases: ShardLeases
  /** Events that were delivered and are not settled, each with its shard. */
  readonly #inHand = new Map<number, Shard>()
  readonly #busy: BusyAggregates
  /** When the next read is due. 0: at once. */
  at = 0

  constructor(parts: Pick<OutboxSourceParts, 'outbox' | 'clock'>, destination: string, leases: ShardLeases) {
    this.#parts = parts
    this.#destination = destination
    this.#leases = leases
    this.#busy = new BusyAggregates(parts.clock)
  }

  /** The next due events of these shards. `returned` were given back, and are delivered again by the subscription. */
  async next(
    shards: readonly Shard[],
    max: number,
    returned: ReadonlySet<number>,
  ): Promise<readonly { event: HeldEvent; lease: Shard }[]> {
    if (this.#leases.tookDue()) this.at = 0
    if (this.#parts.clock.now() < this.at) return []
    this.at = Infinity
    try {
      return await this.#look(shards, max, returned)
    } catch (error) {
      this.at = 0
      throw error
    }
  }

  async #look(
    shards: readonly Shard[],
    max: number,
    returned: ReadonlySet<number>,
  ): Promise<readonly { event: HeldEvent; lease: Shard }[]> {
    const { outbox, clock } = this.#parts
    // Events in hand are read again, so the limit makes room for them.
    const limit = Math.min(max, DUE_LIMIT) + this.#inHand.size + this.#busy.letGo()
    const { events, nextInMs } = await outbox.due({
      destination: this.#destination,
      shards: shards.map(({ shard }) => shard),
      limit,
      behind: DUE_BEHIND,
      bytes: RELAY_BATCH_BYTES,
      without: this.#busy.all,
    })
    const fresh = events.filter(({ seq }) => !this.#inHand.has(seq) && !returned.has(seq))
    const leastMs = this.#busy.some ? RELAY_POLL_BUSY_MS : events.length > 0 ? IN_HAND_MS : 1
    // More events may have become due meanwhile. Then the time is 0.
    if (nextInMs !== null) this.at = Math.min(this.at, clock.now() + Math.max(nextInMs, leastMs))
    const { ready, cancelled, busy } = await take(outbox, fresh)
    this.#busy.add(busy)
    // There may be more events, or events of aggregates that are not busy.
    if (events.length >= limit || ready.length > max || busy.size > 0) this.at = 0
    if (cancelled.length > 0) {
      await this.settle(cancelled)
      this.at = 0
    }
    return ready.slice(0, max).flatMap((event) => {
      const lease = shards.find(({ shard }) => shard === event.shard)
      if (!lease || !this.#leases.owns(lease)) return []
      this.#inHand.set(event.seq, lease)
      return { event, lease }
    })
  }

  /** Settles events. True: an event behind one of them is due now. */
  async settle(sent: readonly StoredEvent[]): Promise<boolean> {
    for (const { seq } of sent) this.#inHand.delete(seq)
    const rest = { changed: [], kept: [], park: [], touched: sent }
    let isMore = false
    await this.#leases.told(sent, async (server) => {
      const leases = [...this.#leases.shards.values()]
      const params = { destination: this.#destination, server, leases, sent, ...rest }
      const settled = await this.#parts.outbox.settleHeld(params)
      isMore = settled.blocked.length > 0
      return settled
    })
    if (isMore) this.at = 0
    return isMore
  }

  releaseLost(): void {
    for (const [seq, shard] of this.#inHand) if (!this.#leases.owns(shard)) this.#inHand.delete(seq)
  }
}
