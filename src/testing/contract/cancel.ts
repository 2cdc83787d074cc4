import { strict as assert } from 'node:assert'
import type { Cancellation } from '../../store/cancellation.ts'
import type { NotTaken } from '../../store/outbox.ts'
import { newUuid } from '../../platform/uuid.ts'
import { claimOf, completing, newKey, pass, win } from './make.ts'
import { eventOf, held, placeOf, Relayer, unlessOutbox } from './relayer.ts'
import { oneWriter, type Case, type SqlSubject } from './subject.ts'

const unless = unlessOutbox

const LATER_MS = 800
const HOUR_MS = 3_600_000

function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString()
}

/** Publishes one delayed event, which one destination reads and holds. */
async function delayed(subject: SqlSubject, ms = LATER_MS, headers: Record<string, string> = {}) {
  const relay = await Relayer.open(subject)
  const notbefore = timeIn(ms)
  await relay.publish('a', 1, { ...headers, notbefore })
  const mine = await relay.lease()
  const [event] = await relay.read()
  assert.ok(event)
  const passed = { cursor: event.seq, tryingTo: null, attempt: 0 }
  await relay.ack(mine, passed, [held(event, { state: 'delayed', notBefore: notbefore })])
  const cancel = async (namespace = 0): Promise<Cancellation> => relay.outbox.cancel({ id: event.id, namespace })
  const take = async (): Promise<readonly NotTaken[]> => relay.outbox.takeDelayed({ ids: [event.id] })
  return { relay, mine, event, cancel, take }
}

export const CANCEL_CASES: readonly Case[] = [
  {
    name: 'outbox: a delayed event is cancelled before its time, and is never sent or resent',
    unless,
    async test(subject) {
      const { relay, mine, event, cancel, take } = await delayed(subject)
      assert.equal(await cancel(), 'cancelled')
      assert.equal(await cancel(), 'cancelled')
      await pass(LATER_MS + 50)
      assert.deepEqual(await take(), [{ id: event.id, cancelled: true }])
      assert.deepEqual(await take(), [{ id: event.id, cancelled: true }])
      assert.equal(await cancel(), 'cancelled')
      await relay.settle(mine, { sent: [event], touched: [{ ...placeOf(event), aggregateId: relay.aggregate }] })
      const since = timeIn(-HOUR_MS)
      const wanted = { destination: relay.destination, since, until: null, type: null, aggregateId: relay.aggregate }
      assert.equal(await relay.outbox.resend(wanted), 0)
    },
  },
  {
    name: 'outbox: a late cancel returns that the event is due, and no later cancel succeeds',
    unless,
    async test(subject) {
      const late = await delayed(subject)
      await pass(LATER_MS + 50)
      assert.equal(await late.cancel(), 'due')
      assert.deepEqual(await late.take(), [])
      assert.equal(await late.cancel(), 'due')
      // The relay took this event before its time. That happens when the database's clock is set back afterwards.
      const taken = await delayed(subject, HOUR_MS)
      assert.deepEqual(await taken.take(), [])
      assert.equal(await taken.cancel(), 'due')
      const long = await delayed(subject, -Date.now() - HOUR_MS)
      assert.equal(await long.cancel(), 'due')
    },
  },
  {
    name: 'outbox: an event that is ordered, not delayed, unknown or of another namespace is not cancelled',
    unless,
    async test(subject) {
      const { relay, ...own } = await delayed(subject, HOUR_MS)
      assert.equal(await own.cancel(1), 'unknown')
      assert.equal(await own.cancel(), 'cancelled')
      const ordered = await delayed(subject, HOUR_MS, { previous: newUuid() })
      assert.equal(await ordered.cancel(), 'ordered')
      assert.equal(await relay.outbox.cancel({ id: newUuid(), namespace: 0 }), 'unknown')
      await relay.publish('plain', 1, { note: '"notbefore"' })
      const plain = (await relay.read()).at(-1)
      assert.equal(await relay.outbox.cancel({ id: plain?.id ?? '', namespace: 0 }), 'unknown')
      assert.deepEqual(await relay.outbox.takeDelayed({ ids: [newUuid(), ordered.event.id] }), [])
    },
  },
  {
    name: 'outbox: no relay takes an event while it is being cancelled, and a rollback restores it',
    unless: (subject) => unless(subject) ?? oneWriter(subject),
    async test(subject) {
      const { event, cancel, take } = await delayed(subject)
      const { session } = await win(subject.store, claimOf(newKey()))
      assert.equal(await session.cancel({ id: event.id, namespace: 0 }), 'cancelled')
      await pass(LATER_MS + 50)
      assert.deepEqual(await take(), [{ id: event.id, cancelled: false }])
      await session.rollback()
      assert.deepEqual(await take(), [])
      assert.equal(await cancel(), 'due')
    },
  },
  {
    name: 'outbox: a cancellation waits for a concurrent one, and returns what became of the event',
    unless: (subject) => unless(subject) ?? oneWriter(subject),
    async test(subject) {
      const { event, cancel } = await delayed(subject, HOUR_MS)
      const claim = claimOf(newKey())
      const { session, claimed } = await win(subject.store, claim)
      assert.equal(await session.cancel({ id: event.id, namespace: 0 }), 'cancelled')
      const second = cancel()
      await pass(50)
      await session.complete({ ...completing(claim, claimed, '1'), events: [] })
      assert.equal(await second, 'cancelled')
    },
  },
  {
    name: 'outbox: a transaction can cancel the events that it published itself',
    unless,
    async test(subject) {
      const { store } = subject
      const now = { id: newUuid(), namespace: 0 }
      for (const fate of ['rollback', 'commit'] as const) {
        const claim = claimOf(newKey())
        const { session, claimed } = await win(store, claim)
        const [written, unwritten] = ['a', 'b'].map((type) =>
          eventOf(newKey(), type, 0, { notbefore: timeIn(HOUR_MS) }),
        ) as [ReturnType<typeof eventOf>, ReturnType<typeof eventOf>]
        await session.append([written])
        assert.equal(await session.cancel({ ...now, id: written.id }), 'cancelled')
        assert.equal(await session.cancel({ ...now, id: unwritten.id, unwritten }), 'cancelled')
        assert.equal(await session.cancel({ ...now, id: unwritten.id, unwritten }), 'cancelled')
        if (fate === 'rollback') await session.rollback()
        else await session.complete({ ...completing(claim, claimed, '1'), events: [unwritten] })
        const then = fate === 'rollback' ? 'unknown' : 'cancelled'
        assert.equal(await store.outbox.cancel({ ...now, id: written.id }), then)
        assert.equal(await store.outbox.cancel({ ...now, id: unwritten.id }), then)
        const not = await store.outbox.takeDelayed({ ids: [written.id, unwritten.id] })
        assert.equal(not.filter(({ cancelled }) => cancelled).length, fate === 'rollback' ? 0 : 2)
      }
    },
  },
]
