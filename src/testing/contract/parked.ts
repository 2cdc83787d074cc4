import { strict as assert } from 'node:assert'
import type { StoredEvent } from '../../store/outbox.ts'
import type { Parked, SettledParked, SettleParkedParams } from '../../store/parked.ts'
import { held, LEASE_MS, Relayer, typeOf } from './relayer.ts'
import type { Case, SqlSubject } from './subject.ts'

const unless = ({ store }: SqlSubject): string | null =>
  store.outbox?.parked ? null : 'the store cannot release parked events'

type Begun = Awaited<ReturnType<Relayer['begin']>>

/** Holds three events of one aggregate: the first failed for the last time, and the others wait behind it. */
async function parkedLine(subject: SqlSubject): Promise<Begun & { relay: Relayer; parked: Parked }> {
  const relay = await Relayer.open(subject)
  const begun = await relay.begin(3)
  const [head, second, third] = begun.events
  const line = [
    held(head, { state: 'parked', attempts: 2, reason: 'no' }),
    held(second, { state: 'parked' }),
    held(third, { state: 'parked' }),
  ]
  await relay.ack(begun.mine, { cursor: third.seq, tryingTo: null, attempt: 0 }, line)
  return { ...begun, relay, parked: relay.outbox.parked as Parked }
}

function settling({ relay, mine, parked }: Awaited<ReturnType<typeof parkedLine>>) {
  const { destination, aggregate } = relay
  const nothing = { destination, shard: mine.shard, aggregateIds: [aggregate], release: false, skip: [], limit: 10 }
  return (of: Partial<SettleParkedParams>): Promise<SettledParked> => parked.settle({ ...nothing, ...of })
}

export const PARKED_CASES: readonly Case[] = [
  {
    name: 'parked: events are listed in order, by aggregate and by id',
    unless,
    async test(subject) {
      const { relay, parked, events, mine } = await parkedLine(subject)
      const all = { destination: relay.destination, aggregateId: null, id: null, after: 0, limit: 10 }
      const listed = await parked.list(all)
      assert.deepEqual(
        listed.map(({ type, reason, attempts, seq }) => ({ type, reason, attempts, seq })),
        events.map((event, n) => {
          const [reason, attempts] = n === 0 ? ['no', 2] : [null, 0]
          return { type: typeOf(event), reason, attempts, seq: event.seq }
        }),
      )
      for (const { heldAt, publishedAt } of listed) assert.ok(heldAt >= publishedAt - 1 && heldAt < Date.now() + 60_000)
      const second = events[1]
      assert.deepEqual((await parked.list({ ...all, id: second.id })).map(typeOf), ['a.1'])
      assert.deepEqual((await parked.list({ ...all, after: second.seq })).map(typeOf), ['a.2'])
      assert.deepEqual((await parked.list({ ...all, limit: 1 })).map(typeOf), ['a.0'])
      assert.deepEqual(await parked.list({ ...all, aggregateId: 'another' }), [])
      assert.deepEqual(await parked.list({ ...all, destination: 'another' }), [])
      const lines = { destination: relay.destination, aggregateId: null, after: null, limit: 10 }
      const line = { shard: mine.shard, aggregateId: relay.aggregate, head: events[0].seq }
      assert.deepEqual(await parked.lines(lines), [line])
      assert.deepEqual(await parked.lines({ ...lines, after: line }), [])
    },
  },
  {
    name: 'parked: a released event is due with zero attempts, and its successors follow it',
    unless,
    async test(subject) {
      const begun = await parkedLine(subject)
      const settle = settling(begun)
      assert.deepEqual(await settle({ release: true }), { released: 3, skipped: 0, more: false })
      assert.deepEqual(await settle({ release: true }), { released: 0, skipped: 0, more: false })
      const { events } = await begun.relay.due(begun.mine)
      assert.deepEqual(
        events.map((event) => [typeOf(event), event.attempts, event.tried, event.state]),
        ['a.0', 'a.1', 'a.2'].map((type) => [type, 0, 0, 'waiting']),
      )
      assert.equal((await begun.relay.beat([begun.mine])).due, true)
    },
  },
  {
    name: 'parked: many successors are released in batches, and stay in order',
    unless,
    async test(subject) {
      const begun = await parkedLine(subject)
      const settle = settling(begun)
      assert.deepEqual(await settle({ release: true, limit: 1 }), { released: 2, skipped: 0, more: true })
      assert.deepEqual((await begun.relay.due(begun.mine)).events.map(typeOf), ['a.0', 'a.1'])
      assert.deepEqual(await settle({ limit: 1 }), { released: 1, skipped: 0, more: true })
      assert.deepEqual(await settle({ limit: 1 }), { released: 0, skipped: 0, more: false })
      assert.deepEqual((await begun.relay.due(begun.mine)).events.map(typeOf), ['a.0', 'a.1', 'a.2'])
    },
  },
  {
    name: 'parked: a skipped event is not sent, and no event passes a parked one',
    unless,
    async test(subject) {
      const begun = await parkedLine(subject)
      const [head, second] = begun.events as readonly [StoredEvent, StoredEvent]
      const settle = settling(begun)
      assert.deepEqual(await settle({ skip: [second.seq] }), { released: 0, skipped: 1, more: false })
      assert.deepEqual(await settle({ skip: [second.seq] }), { released: 0, skipped: 0, more: false })
      assert.deepEqual((await begun.relay.due(begun.mine)).events, [])
      assert.deepEqual(await settle({ skip: [head.seq] }), { released: 1, skipped: 1, more: false })
      assert.deepEqual((await begun.relay.due(begun.mine)).events.map(typeOf), ['a.2'])
    },
  },
  {
    name: 'parked: an event that was parked behind a released one is found by the next settlement or the next owner',
    unless,
    async test(subject) {
      for (const how of ['settlement', 'owner'] as const) {
        const begun = await parkedLine(subject)
        const { relay, mine, events } = begun
        const place = { shard: mine.shard, aggregateId: relay.aggregate }
        await settling(begun)({ skip: events.map(({ seq }) => seq) })
        await relay.publish('b', 2)
        const late = await relay.read({ cursor: (events.at(-1) as StoredEvent).seq })
        const cursor = (late.at(-1) as StoredEvent).seq
        const hold = late.map((event) => held(event, { state: 'parked' }))
        await relay.ack(mine, { cursor, tryingTo: null, attempt: 0 }, hold)
        assert.deepEqual((await relay.due(mine)).events, [])
        if (how === 'settlement') {
          const { blocked } = await relay.settle(mine, { touched: [place], released: [place] })
          assert.deepEqual(blocked, [{ ...place, parked: false }])
        } else assert.deepEqual((await relay.lease(LEASE_MS, mine)).blocked, [{ ...place, parked: false }])
        assert.deepEqual((await relay.due(mine)).events.map(typeOf), ['b.0', 'b.1'])
      }
    },
  },
  {
    name: 'parked: a settlement does not release an event behind a parked one',
    unless,
    async test(subject) {
      const { relay, mine } = await parkedLine(subject)
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      const { blocked } = await relay.settle(mine, { touched: [place], released: [place] })
      assert.deepEqual(blocked, [{ ...place, parked: true }])
      assert.deepEqual((await relay.due(mine)).events, [])
      assert.deepEqual((await relay.lease(LEASE_MS, mine)).blocked, [{ ...place, parked: true }])
      assert.deepEqual((await relay.due(mine)).events, [])
    },
  },
]
