import { strict as assert } from 'node:assert'
import { newUuid } from '../../platform/uuid.ts'
import { SHARDS } from '../../limits.ts'
import type { Beat, ShardLease } from '../../store/outbox.ts'
import { claimOf, newKey, pass, win } from './make.ts'
import { eventOf, held, LEASE_MS, Relayer, typeOf, unlessOutbox as unless } from './relayer.ts'
import type { Case } from './subject.ts'

const SHORT_MS = 200

export const OUTBOX_CASES: readonly Case[] = [
  {
    name: 'outbox: committed events are read in order, and rolled-back events never',
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
    name: 'outbox: one relay owns a shard, and a lapsed shard is taken over with a higher token',
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
    name: 'outbox: a heartbeat counts live relays and free shards',
    unless,
    async test(subject) {
      const { outbox, destination } = await Relayer.open(subject)
      const [one, two, three] = [newUuid(), newUuid(), newUuid()]
      const beat = (relay: string, leases: readonly ShardLease[] = []): Promise<Beat> =>
        outbox.beat({ destination, relay, leaseMs: LEASE_MS, leases })
      assert.equal((await beat(one)).relays, 1)
      const leases = await outbox.lease({ destination, relay: one, leaseMs: LEASE_MS, limit: 5 })
      const { relays, free } = await beat(two)
      assert.deepEqual([relays, free], [2, SHARDS - 5])
      const others = await outbox.lease({ destination, relay: two, leaseMs: LEASE_MS, limit: 4 })
      await outbox.release({ destination, relay: one, leases: leases.slice(0, 1), leaving: false })
      const still = await beat(one, leases)
      assert.deepEqual([still.relays, still.free, still.ours.length], [2, SHARDS - 8, 4])
      await outbox.release({ destination, relay: one, leases: leases.slice(1), leaving: true })
      const after = await beat(three, leases)
      assert.deepEqual([after.relays, after.free, after.ours], [2, SHARDS - 4, []])
      assert.equal((await beat(two, others)).ours.length, 4)
    },
  },
  {
    name: 'outbox: an acknowledgement moves the cursor and announces events, and a fenced one writes nothing',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      await relay.publish('a', 3)
      const mine = await relay.lease(SHORT_MS)
      const [first, second] = await relay.read()
      assert.ok(first && second)
      await relay.ack(mine, { cursor: first.seq, tryingTo: second.seq + 1, attempt: 1 })
      // The same owner may announce another batch from the same cursor.
      const announced = { cursor: first.seq, tryingTo: second.seq, attempt: 2 }
      assert.deepEqual(await relay.ack(mine, announced), { ours: [mine.shard], parked: [] })
      assert.deepEqual((await relay.read({ cursor: first.seq })).map(typeOf), ['a.1', 'a.2'])
      await pass(SHORT_MS * 3)
      const next = await relay.lease()
      assert.deepEqual([next.cursor, next.tryingTo, next.attempt], [first.seq, second.seq, 2])
      const given = held(second, { state: 'parked', attempts: 1, reason: 'no' })
      const late = await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 }, [given])
      assert.deepEqual(late, { ours: [], parked: [] })
      assert.deepEqual(next.blocked, [])
      await relay.outbox.release({ destination: relay.destination, relay: newUuid(), leases: [next], leaving: false })
      assert.equal((await relay.lease()).cursor, first.seq)
    },
  },
  {
    name: 'outbox: a released shard is free at once, has a new token, and no announced events',
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
]
