import { strict as assert } from 'node:assert'
import { newUuid } from '../../platform/uuid.ts'
import type { StoredEvent } from '../../store/outbox.ts'
import { held, LEASE_MS, placeOf, Relayer, typeOf, unlessOutbox as unless } from './relayer.ts'
import type { Case } from './subject.ts'

export const HELD_CASES: readonly Case[] = [
  {
    name: 'outbox: a held event is read when it is due, with its successors, until it is settled',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.hold(3)
      const [head, second, third] = events
      const due = await relay.due(mine)
      assert.deepEqual(due.events.map(typeOf), ['a.0', 'a.1', 'a.2'])
      assert.deepEqual(
        due.events.map(({ attempts }) => attempts),
        [1, 0, 0],
      )
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      const settled = await relay.settle(mine, { sent: [head], touched: [place] })
      assert.deepEqual(settled, { ours: [mine.shard], parked: [], blocked: [{ ...place, parked: false }] })
      assert.deepEqual((await relay.due(mine)).events.map(typeOf), ['a.1', 'a.2'])
      assert.deepEqual((await relay.settle(mine, { sent: [second, third], touched: [place] })).blocked, [])
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
    },
  },
  {
    name: 'outbox: an event knows of held events before it in its aggregate, until they are settled',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.begin(3)
      const [delayed, skipped, last] = events
      const later = { state: 'delayed', notBefore: new Date(Date.now() + 60_000).toISOString() } as const
      const hold = [held(delayed, later), held(skipped, { state: 'skipped', attempts: 1, reason: 'no' })]
      await relay.ack(mine, { cursor: last.seq, tryingTo: null, attempt: 0 }, hold)
      const { destination } = relay
      const other = { ...last, aggregateId: 'o\'"\\{},' }
      const before = (of: typeof events | readonly (typeof last)[]) =>
        relay.outbox.heldBefore({ destination, events: [...of] })
      const found = (await before([...events, other])).map(placeOf).sort((a, b) => a.seq - b.seq)
      assert.deepEqual(found, [skipped, last].map(placeOf))
      assert.deepEqual(await before([]), [])
      await relay.settle(mine, { sent: [delayed] })
      assert.deepEqual(await before(events), [])
    },
  },
  {
    name: 'outbox: an excluded aggregate does not use up the limit of a read',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine } = await relay.hold(2)
      const asked = { destination: relay.destination, shards: [mine.shard], limit: 1, behind: 10 }
      const left = await relay.outbox.due({ ...asked, without: [relay.aggregate, 'o\'"\\{},'] })
      assert.deepEqual(left.events, [])
      assert.ok((left.nextInMs ?? 1) <= 0)
      const found = await relay.outbox.due({ ...asked, without: ['o\'"\\{},', 'null'] })
      assert.deepEqual(found.events.map(typeOf), ['a.0', 'a.1'])
    },
  },
  {
    name: 'outbox: a parked event parks its successors, and the next owner reads which events wait',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.hold(2)
      const [head, second] = events
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      const parked = held(head, { state: 'parked', attempts: 2, reason: 'no' })
      const settled = await relay.settle(mine, { changed: [parked], park: [place], touched: [place] })
      const written = { ours: [mine.shard], parked: [{ shard: head.shard, seq: head.seq }] }
      assert.deepEqual(settled, { ...written, blocked: [{ ...place, parked: true }] })
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
      await relay.outbox.release({ destination: relay.destination, relay: newUuid(), leases: [mine], leaving: false })
      const next = await relay.lease()
      assert.deepEqual(next.blocked, [{ ...place, parked: true }])
      // The former owner can no longer settle events, and its call reports that.
      const late = await relay.settle(mine, { sent: [second], changed: [parked], touched: [place] })
      assert.deepEqual(late, { ours: [], parked: [], blocked: [] })
      assert.deepEqual((await relay.lease(LEASE_MS, next)).blocked, [{ ...place, parked: true }])
    },
  },
  {
    name: 'outbox: an acknowledgement returns the events that it parked, also when it is repeated',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.begin(2)
      const [first, second] = events
      const parked = held(first, { state: 'parked', attempts: 1, reason: 'no' })
      const behind = held(second, { state: 'parked' })
      const passed = { cursor: second.seq, tryingTo: null, attempt: 0 }
      for (const time of ['first', 'again'])
        assert.deepEqual((await relay.ack(mine, passed, [parked, behind])).parked, [placeOf(first)], time)
      await relay.settle(mine, { changed: [held(first, { dueInMs: 0 })] })
      assert.deepEqual((await relay.ack(mine, passed, [parked])).parked, [])
    },
  },
  {
    name: 'outbox: only the owner counts an attempt of a held event, before the attempt',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.hold(3)
      const [head, second] = events
      const counts = async (): Promise<number[]> => (await relay.due(mine)).events.map(({ tried }) => tried)
      assert.deepEqual(await counts(), [0, 0, 0])
      const tries = [head, second].map((event) => ({ ...placeOf(event), tried: 1, dueInMs: null }))
      assert.deepEqual(await relay.tries({ ...mine, token: mine.token + 1 }, tries), [])
      assert.deepEqual(await counts(), [0, 0, 0])
      for (let time = 0; time < 2; time++) assert.deepEqual(await relay.tries(mine, tries), [mine.shard])
      assert.deepEqual(await counts(), [1, 1, 0])
      // The next owner of the shard finds the same counts.
      const next = await relay.lease(LEASE_MS, mine)
      assert.deepEqual(await counts(), [1, 1, 0])
      await relay.settle(next, { kept: [{ ...placeOf(second), tried: 0 }], changed: [held(head, { dueInMs: 0 })] })
      assert.deepEqual(await counts(), [0, 0, 0])
      await relay.tries(next, [{ ...placeOf(head), tried: 3, dueInMs: 60_000 }])
      const due = await relay.due(next)
      assert.deepEqual(due.events, [])
      assert.ok((due.nextInMs ?? 0) > 30_000, 'what was alone when a relay died waits a while')
    },
  },
  {
    name: 'outbox: a held event without a predecessor is due for the next owner of its shard',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const { mine, events } = await relay.begin(2)
      const [first, second] = events
      // A late acknowledgement writes the same rows when another settlement has removed the head meanwhile.
      await relay.ack(mine, { cursor: second.seq, tryingTo: null, attempt: 0 }, [held(first, {}), held(second, {})])
      assert.deepEqual(await relay.due(mine), { events: [], nextInMs: null })
      const next = await relay.lease(LEASE_MS, mine)
      assert.deepEqual((await relay.due(next)).events.map(typeOf), ['a.0', 'a.1'])
    },
  },
  {
    name: 'outbox: a resend holds sent events under its own number, and each aggregate in order',
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
      // A resend leaves out events that the cursor has not passed, because the relay sends them anyway.
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
  {
    name: 'outbox: a resend keeps the time of a delayed event, and no event waits behind it',
    unless,
    async test(subject) {
      const relay = await Relayer.open(subject)
      const since = new Date(Date.now() - 3_600_000).toISOString()
      const wanted = { destination: relay.destination, since, until: null, type: null, aggregateId: relay.aggregate }
      await relay.publish('later', 1, { notbefore: new Date(Date.now() + 3_600_000).toISOString() })
      // Plain SQL can write any text: a day that does not exist, no time at all, or a time in another format.
      await relay.publish('over', 1, { notbefore: '2020-02-31T00:00:00.000Z' })
      await relay.publish('never', 1, { notbefore: 'soon' })
      await relay.publish('offset', 1, { notbefore: '2999-01-01T00:00:00+02:00' })
      await relay.publish('now', 1)
      const mine = await relay.lease()
      const events = await relay.read()
      // A relay that filters these types out also moves its cursor past the events.
      await relay.ack(mine, { cursor: (events.at(-1) as StoredEvent).seq, tryingTo: null, attempt: 0 })
      assert.equal(await relay.outbox.resend(wanted), 5)
      const { events: due } = await relay.due(mine)
      assert.deepEqual(due.map(typeOf), ['over.0', 'never.0', 'now.0'])
      const place = { shard: mine.shard, aggregateId: relay.aggregate }
      assert.deepEqual((await relay.settle(mine, { sent: due, touched: [place] })).blocked, [])
      const later = await relay.due(mine)
      assert.deepEqual(later.events, [])
      assert.ok(Math.abs((later.nextInMs ?? 0) - 3_600_000) < 600_000, 'it comes when its time has come')
      assert.equal(await relay.outbox.resend(wanted), 3)
    },
  },
]
