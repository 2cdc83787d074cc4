import { strict as assert } from 'node:assert'
import { newUuid } from '../../platform/uuid.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { SHARDS } from '../../limits.ts'
import type { AckParams, EventPlace, HoldParams, Outbox, ShardState, StoredEvent } from '../../store/outbox.ts'
import type { EventRow } from '../../store/store.ts'
import { claimOf, completing, newKey, win } from './make.ts'
import type { SqlSubject } from './subject.ts'

export const LEASE_MS = 20_000
const ALL = 1_000_000

export const unlessOutbox = ({ store }: SqlSubject): string | null => (store.outbox ? null : 'the store has no outbox')

type EventHeaders = Readonly<Record<string, string>>

type Events<N extends 2 | 3> = N extends 2
  ? readonly [StoredEvent, StoredEvent]
  : readonly [StoredEvent, StoredEvent, StoredEvent]

/** Makes a relay's calls on one shard. It starts after the events that other cases left in the shard. */
export class Relayer {
  readonly outbox: Outbox
  readonly destination: string = newKey()
  readonly aggregate: string = newKey()
  private readonly subject: SqlSubject
  private from = 0
  /** The segment to which events are currently written. */
  private segment = 0

  private readonly namespace: number

  private constructor(subject: SqlSubject, namespace: number) {
    this.subject = subject
    this.namespace = namespace
    this.outbox = subject.store.outbox
  }

  static async open(subject: SqlSubject, namespace = 0): Promise<Relayer> {
    const relay = new Relayer(subject, namespace)
    await relay.outbox.open({ destination: relay.destination, namespace })
    await relay.outbox.open({ destination: relay.destination, namespace })
    relay.from = (await relay.read({ limit: ALL })).at(-1)?.seq ?? 0
    return relay
  }

  get shard(): number {
    return shardOf(this.aggregate, this.namespace)
  }

  /** Runs one operation that commits `count` events. */
  async publish(name: string, count: number, headers: EventHeaders = {}): Promise<void> {
    const claim = claimOf(newKey())
    const { session, claimed } = await win(this.subject.store, claim)
    const { shard } = this
    const events = Array.from({ length: count }, (_, n) => ({
      ...eventOf(this.aggregate, `${name}.${n}`, n, headers),
      shard,
    }))
    assert.equal(await session.complete({ ...completing(claim, claimed, '1'), events }), 'committed')
  }

  /** Publishes `count` events, leases their shard and reads them. */
  async begin<const N extends 2 | 3>(count: N): Promise<{ mine: ShardState; events: Events<N> }> {
    await this.publish('a', count)
    const mine = await this.lease()
    const events = await this.read()
    assert.equal(events.length, count)
    return { mine, events: events as unknown as Events<N> }
  }

  /**
   * Does the same as `begin`, and then holds the events. The first failed once and is due; the others wait behind it.
   */
  async hold<const N extends 2 | 3>(count: N): Promise<{ mine: ShardState; events: Events<N> }> {
    const begun = await this.begin(count)
    const [head, ...behind] = begun.events as readonly [StoredEvent, ...StoredEvent[]]
    const hold = [held(head, { dueInMs: 0, attempts: 1, reason: 'no' }), ...behind.map((event) => held(event, {}))]
    const cursor = (behind.at(-1) ?? head).seq
    await this.ack(begun.mine, { cursor, tryingTo: null, attempt: 0 }, hold)
    return begun
  }

  async read(of: { cursor?: number; limit?: number } = {}): Promise<readonly StoredEvent[]> {
    const { shard } = this
    const { cursor = this.from, limit = 100 } = of
    const from = [{ shard, cursor, segment: 0 }]
    const { events } = await this.outbox.read({ destination: this.destination, from, perShard: limit, limit })
    this.segment = events.at(-1)?.segment ?? this.segment
    return limit === ALL ? events : events.filter(({ aggregateId }) => aggregateId === this.aggregate)
  }

  /** Leases the shard of the aggregate. When `known` is given, its lease is released first. */
  async lease(leaseMs: number = LEASE_MS, known?: ShardState): Promise<ShardState> {
    const { destination } = this
    if (known) await this.outbox.release({ destination, relay: newUuid(), leases: [known], leaving: false })
    const leased = await this.outbox.lease({ destination, relay: newUuid(), leaseMs, limit: SHARDS })
    const mine = leased.find(({ shard }) => shard === this.shard)
    assert.ok(mine, 'the shard was not free')
    return mine
  }

  ack(
    { shard, token }: ShardState,
    of: Pick<AckParams['acks'][number], 'cursor' | 'tryingTo' | 'attempt'>,
    hold: readonly HoldParams[] = [],
  ): ReturnType<Outbox['ack']> {
    const passed = { segment: this.segment, counted: 1 }
    return this.outbox.ack({ destination: this.destination, acks: [{ shard, token, ...passed, ...of }], hold })
  }

  beat(leases: readonly ShardState[]): ReturnType<Outbox['beat']> {
    return this.outbox.beat({ destination: this.destination, relay: newUuid(), leaseMs: LEASE_MS, leases })
  }

  due({ shard }: ShardState): ReturnType<Outbox['due']> {
    return this.outbox.due({ destination: this.destination, shards: [shard], limit: 10, behind: 10 })
  }

  settle(
    lease: ShardState,
    of: Partial<Omit<Parameters<Outbox['settleHeld']>[0], 'destination' | 'leases'>>,
  ): ReturnType<Outbox['settleHeld']> {
    const { destination } = this
    const nothing = { sent: [], changed: [], kept: [], park: [], touched: [] }
    return this.outbox.settleHeld({ destination, leases: [lease], ...nothing, ...of })
  }

  tries(lease: ShardState, events: Parameters<Outbox['tryHeld']>[0]['events']): ReturnType<Outbox['tryHeld']> {
    return this.outbox.tryHeld({ destination: this.destination, leases: [lease], events })
  }
}

export function eventOf(aggregateId: string, type: string, n = 0, more: EventHeaders = {}): EventRow {
  const headers = JSON.stringify({ source: 'contract', ...more })
  const shard = shardOf(aggregateId)
  return { id: newUuid(), shard, aggregateType: 'contract', aggregateId, type, payload: `{"n":${n}}`, headers }
}

export function held({ shard, seq, aggregateId }: StoredEvent, of: Partial<HoldParams>): HoldParams {
  const waiting = { state: 'waiting', attempts: 0, dueInMs: null, notBefore: null, reason: null } as const
  return { shard, seq, aggregateId, ...waiting, ...of }
}

export function placeOf({ shard, seq }: EventPlace): EventPlace {
  return { shard, seq }
}

export function typeOf({ type }: Pick<StoredEvent, 'type'>): string {
  return type
}
