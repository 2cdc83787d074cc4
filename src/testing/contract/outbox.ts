import { strict as assert } from 'node:assert'
import { newUuid } from '../../platform/uuid.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { SHARDS } from '../../limits.ts'
import type { AckParams, HoldParams, Outbox, ShardState, StoredEvent } from '../../store/outbox.ts'
import type { EventRow } from '../../store/store.ts'
import { claimOf, completing, newKey, pass, win } from './make.ts'
import type { Case, StoreSubject } from './subject.ts'

const LEASE_MS = 20_000
const SHORT_MS = 50
const ALL = 1_000_000

const unless = ({ store }: StoreSubject<unknown>): string | null => (store.outbox ? null : 'the store has no outbox')

export const OUTBOX_CASES: readonly Case[] = [
  {
    name: 'outbox: events of a commit are read in their order, those of a rollback never',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 2)
      const { session, claimed } = await win(subject.store, claimOf(newKey()))
      assert.ok(claimed)
      await session.append([eventOf(relay.aggregate, 'never')])
      await session.rollback()
      await relay.publish('b', 1)
      const events = await relay.read()
      assert.deepEqual(events.map(typeOf), ['a.0', 'a.1', 'b.0'])
      assert.deepEqual(
        events.map(({ seq }) => seq),
        events.map(({ seq }) => seq).sort((a, b) => a - b),
      )
      const [first] = await relay.read({ limit: 1 })
      assert.ok(first)
      assert.equal(typeOf(first), 'a.0')
      assert.equal(first.payload === null ? null : JSON.parse(first.payload).n, 0)
      assert.ok(Math.abs(first.at - Date.now()) < 600_000, 'an event knows when it was published')
    },
  },
  {
    name: 'outbox: a shard belongs to one relay; a lapsed one is taken over under a higher token',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { outbox, destination } = relay
      const [first] = await outbox.lease({ destination, relay: newUuid(), leaseMs: SHORT_MS, limit: 1 })
      assert.ok(first)
      const others = await outbox.lease({ destination, relay: newUuid(), leaseMs: LEASE_MS, limit: SHARDS })
      assert.equal(others.length, SHARDS - 1)
      assert.ok(!others.some(({ shard }) => shard === first.shard))
      await pass(SHORT_MS * 3)
      const [again] = await outbox.lease({ destination, relay: newUuid(), leaseMs: LEASE_MS, limit: SHARDS })
      assert.equal(again?.shard, first.shard)
      assert.ok(again.token > first.token)
      const { ours } = await outbox.beat({ destination, relay: newUuid(), leaseMs: LEASE_MS, leases: [first, again] })
      assert.deepEqual(ours, [again.shard])
    },
  },
  {
    name: 'outbox: a heartbeat counts the relays that live and the shards that are free',
    unless,
    async test(subject) {
      const { outbox, destination } = await Relayer.open(subject)
      const [one, two] = [newUuid(), newUuid()]
      assert.equal((await outbox.beat({ destination, relay: one, leaseMs: LEASE_MS, leases: [] })).relays, 1)
      const leases = await outbox.lease({ destination, relay: one, leaseMs: LEASE_MS, limit: 5 })
      const beat = await outbox.beat({ destination, relay: two, leaseMs: LEASE_MS, leases: [] })
      assert.deepEqual([beat.relays, beat.free], [2, SHARDS - 5])
      await outbox.release({ destination, relay: one, leases, leaving: true })
      const after = await outbox.beat({ destination, relay: two, leaseMs: LEASE_MS, leases })
      assert.deepEqual([after.relays, after.free, after.ours], [1, SHARDS, []])
    },
  },
  {
    name: 'outbox: an acknowledgement moves the cursor and announces; a fenced one writes nothing',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 3)
      const mine = await relay.lease(SHORT_MS)
      const [first, second] = await relay.read()
      assert.ok(first && second)
      assert.deepEqual(await relay.ack(mine, { cursor: first.seq, tryingTo: second.seq, attempt: 1 }), [mine.shard])
      assert.deepEqual((await relay.read({ cursor: first.seq })).map(typeOf), ['a.1', 'a.2'])
      await pass(SHORT_MS * 3)
      const next = await relay.lease()
      assert.deepEqual([next.cursor, next.tryingTo, next.attempt], [first.seq, second.seq, 1])
      assert.deepEqual(await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 }), [])
      await relay.outbox.release({ destination: relay.destination, relay: newUuid(), leases: [next], leaving: false })
      assert.equal((await relay.lease()).cursor, first.seq)
    },
  },
  {
    name: 'outbox: a released shard is free at once, under a new token, without what was announced',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 2)
      const mine = await relay.lease()
      const [first] = await relay.read()
      assert.ok(first)
      await relay.ack(mine, { cursor: first.seq - 1, tryingTo: first.seq, attempt: 2 })
      await relay.outbox.release({ destination: relay.destination, relay: newUuid(), leases: [mine], leaving: false })
      const next = await relay.lease()
      assert.ok(next.token > mine.token)
      assert.deepEqual([next.cursor, next.tryingTo], [first.seq - 1, null])
    },
  },
  {
    name: 'outbox: what is held comes when it is due, with its line behind it, until it is settled',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 3)
      const mine = await relay.lease()
      const [head, second, third] = await relay.read()
      assert.ok(head && second && third)
      const hold = [held(head, { dueInMs: 0, attempts: 1, reason: 'no' }), held(second, {}), held(third, {})]
      await relay.ack(mine, { cursor: third.seq, tryingTo: null, attempt: 0 }, hold)
      const due = await relay.due(mine)
      assert.deepEqual(due.events.map(typeOf), ['a.0', 'a.1', 'a.2'])
      assert.deepEqual(
        due.events.map(({ attempts }) => attempts),
        [1, 0, 0],
      )
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      const settled = await relay.settle(mine, { sent: [head], touched: [place] })
      assert.deepEqual(settled, [{ ...place, parked: false }])
      assert.deepEqual((await relay.due(mine)).events.map(typeOf), ['a.1', 'a.2'])
      assert.deepEqual(await relay.settle(mine, { sent: [second, third], touched: [place] }), [])
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
    },
  },
  {
    name: 'outbox: a parked head parks its line; the next owner is told who waits',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 2)
      const mine = await relay.lease()
      const [head, second] = await relay.read()
      assert.ok(head && second)
      const hold = [held(head, { dueInMs: 0, attempts: 1, reason: 'no' }), held(second, {})]
      await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 }, hold)
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      const parked = held(head, { state: 'parked', attempts: 2, reason: 'no' })
      const blocked = await relay.settle(mine, { changed: [parked], park: [place], touched: [place] })
      assert.deepEqual(blocked, [{ ...place, parked: true }])
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
      await relay.outbox.release({ destination: relay.destination, relay: newUuid(), leases: [mine], leaving: false })
      const next = await relay.lease()
      assert.deepEqual(next.blocked, [{ ...place, parked: true }])
      // The former owner settles nothing any more.
      assert.deepEqual(await relay.settle(mine, { sent: [head, second], touched: [place] }), [])
      assert.deepEqual((await relay.lease(LEASE_MS, next)).blocked, [{ ...place, parked: true }])
    },
  },
  {
    name: 'outbox: what waits behind nothing is due for whoever leases its shard next',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 2)
      const mine = await relay.lease()
      const [first, second] = await relay.read()
      assert.ok(first && second)
      // As a late acknowledgement does, whose head was settled meanwhile.
      await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 }, [held(first, {}), held(second, {})])
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
      const next = await relay.lease(LEASE_MS, mine)
      assert.deepEqual((await relay.due(next)).events.map(typeOf), ['a.0', 'a.1'])
    },
  },
  {
    name: 'outbox: a resend sets aside what was sent, under its own number, each aggregate in order',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const since = new Date(Date.now() - 3_600_000).toISOString()
      const wanted = { destination: relay.destination, since, until: null, type: null, aggregateId: relay.aggregate }
      await relay.publish('a', 3)
      const mine = await relay.lease()
      const events = await relay.read()
      const second = events[1] as StoredEvent
      await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 })
      // What the cursor has not passed is sent anyway.
      assert.equal(await relay.outbox.resend({ ...wanted, type: 'a.1' }), 1)
      assert.equal(await relay.outbox.resend(wanted), 1)
      const due = await relay.due(mine)
      assert.deepEqual(due.events.map(typeOf), ['a.0', 'a.1'])
      assert.ok(due.events.every(({ resend, attempts }) => resend > 0 && attempts === 0))
      assert.equal((await relay.beat([mine])).due, true)
      assert.ok((await relay.outbox.destinations()).includes(relay.destination))
      await relay.outbox.forget({ destination: relay.destination })
      assert.ok(!(await relay.outbox.destinations()).includes(relay.destination))
    },
  },
]

/** A relay's calls on one shard, from the end of what others left there. */
class Relayer {
  readonly outbox: Outbox
  readonly destination: string = newKey()
  readonly aggregate: string = newKey()
  private readonly subject: StoreSubject<unknown>
  private from = 0
  /** Where events are written now. */
  private segment = 0

  private constructor(subject: StoreSubject<unknown>) {
    this.subject = subject
    this.outbox = subject.store.outbox as Outbox
  }

  static async open(subject: StoreSubject<unknown>): Promise<Relayer> {
    const relay = new Relayer(subject)
    await relay.outbox.open({ destination: relay.destination })
    await relay.outbox.open({ destination: relay.destination })
    relay.from = (await relay.read({ limit: ALL })).at(-1)?.seq ?? 0
    return relay
  }

  /** One operation that commits so many events. */
  async publish(name: string, count: number): Promise<void> {
    const claim = claimOf(newKey())
    const { session, claimed } = await win(this.subject.store, claim)
    const events = Array.from({ length: count }, (_, n) => eventOf(this.aggregate, `${name}.${n}`, n))
    assert.equal(await session.complete({ ...completing(claim, claimed, '1'), events }), 'committed')
  }

  async read(of: { cursor?: number; limit?: number } = {}): Promise<readonly StoredEvent[]> {
    const shard = shardOf(this.aggregate)
    const { cursor = this.from, limit = 100 } = of
    const from = [{ shard, cursor, segment: 0 }]
    const { events } = await this.outbox.read({ destination: this.destination, from, perShard: limit, limit })
    this.segment = events.at(-1)?.segment ?? this.segment
    return limit === ALL ? events : events.filter(({ aggregateId }) => aggregateId === this.aggregate)
  }

  /** The shard of the aggregate, among all that are free; `known`: after it was given back. */
  async lease(leaseMs: number = LEASE_MS, known?: ShardState): Promise<ShardState> {
    const { destination } = this
    if (known) await this.outbox.release({ destination, relay: newUuid(), leases: [known], leaving: false })
    const leased = await this.outbox.lease({ destination, relay: newUuid(), leaseMs, limit: SHARDS })
    const mine = leased.find(({ shard }) => shard === shardOf(this.aggregate))
    assert.ok(mine, 'the shard was not free')
    return mine
  }

  ack(
    { shard, token }: ShardState,
    of: Pick<AckParams['acks'][number], 'cursor' | 'tryingTo' | 'attempt'>,
    hold: readonly HoldParams[] = [],
  ): Promise<readonly number[]> {
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
    return this.outbox.settleHeld({ destination, leases: [lease], sent: [], changed: [], park: [], touched: [], ...of })
  }
}

function eventOf(aggregateId: string, type: string, n = 0): EventRow {
  const headers = '{"source":"contract"}'
  const shard = shardOf(aggregateId)
  return { id: newUuid(), shard, aggregateType: 'contract', aggregateId, type, payload: `{"n":${n}}`, headers }
}

function held({ shard, seq, aggregateId }: StoredEvent, of: Partial<HoldParams>): HoldParams {
  const waiting = { state: 'waiting', attempts: 0, dueInMs: null, notBefore: null, reason: null } as const
  return { shard, seq, aggregateId, ...waiting, ...of }
}

function typeOf({ type }: StoredEvent): string {
  return type
}
