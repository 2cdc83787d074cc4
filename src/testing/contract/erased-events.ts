import { strict as assert } from 'node:assert'
import { SHARDS } from '../../limits.ts'
import { isErasedEvent, type Aggregate, type ErasedEvents } from '../../store/erasure.ts'
import type { StoredEvent } from '../../store/outbox.ts'
import { LONG_MS, newKey } from './make.ts'
import { held, Relayer, typeOf } from './relayer.ts'
import type { Case, SqlSubject } from './subject.ts'

/** Erases the events of the relay's aggregate. */
async function eraseEvents(
  { store }: SqlSubject,
  { aggregate, shard }: Relayer,
  dryRun = false,
): Promise<ErasedEvents> {
  const all = { erased: 0, pending: [] as ErasedEvents['pending'][number][], next: null }
  const aggregates: Aggregate[] = [
    { type: 'contract', id: aggregate },
    { type: 'another', id: newKey() },
  ]
  let after: number | null = 0
  while (after !== null) {
    const part: ErasedEvents = await store.erasure.events({
      shard,
      aggregates,
      after,
      limit: 3,
      dryRun,
    })
    all.erased += part.erased
    all.pending.push(...part.pending)
    after = part.next
  }
  return all
}

/** A relay in a namespace of its own. The destinations of other cases would have received none of its events. */
async function relayAlone(subject: SqlSubject): Promise<Relayer> {
  // Other cases have destinations under the first number, without a name for it.
  await subject.store.namespaces.register({ name: newKey() })
  return Relayer.open(subject, await subject.store.namespaces.register({ name: newKey() }))
}

export const ERASED_EVENT_CASES: readonly Case[] = [
  {
    name: 'erasure: the data of sent events goes, their places stay, and no resend sends them',
    async test(subject) {
      const relay = await relayAlone(subject)
      const { mine, events } = await relay.begin(2)
      await relay.ack(mine, { cursor: events[1].seq, tryingTo: null, attempt: 0 })
      assert.deepEqual(await eraseEvents(subject, relay, true), { erased: 2, pending: [], next: null })
      assert.ok(!(await relay.read()).some(isErasedEvent))
      assert.deepEqual(await eraseEvents(subject, relay), { erased: 2, pending: [], next: null })
      const left = await relay.read()
      assert.deepEqual(
        left.map(({ id, seq }) => [id, seq]),
        events.map(({ id, seq }) => [id, seq]),
      )
      for (const event of left) {
        assert.ok(isErasedEvent(event))
        assert.ok(event.payload === null || event.payload === 'null')
        assert.ok(!event.headers?.includes('contract'))
      }
      const since = new Date(0).toISOString()
      const again = { destination: relay.destination, since, until: null, type: null, aggregateId: relay.aggregate }
      assert.equal(await relay.outbox.resend(again), 0)
      assert.deepEqual(await eraseEvents(subject, relay), { erased: 0, pending: [], next: null })
    },
  },
  {
    name: 'erasure: events that a destination has not received stay and are named',
    async test(subject) {
      const relay = await relayAlone(subject)
      await relay.publish('a', 6)
      const mine = await relay.lease()
      const [waiting, delayed, parked, skipped, sent, unsent] = (await relay.read()) as readonly StoredEvent[] &
        [StoredEvent, StoredEvent, StoredEvent, StoredEvent, StoredEvent, StoredEvent]
      const later = new Date(Date.now() + LONG_MS).toISOString()
      await relay.ack(mine, { cursor: sent.seq, tryingTo: null, attempt: 0 }, [
        held(waiting, {}),
        held(delayed, { state: 'delayed', notBefore: later }),
        held(parked, { state: 'parked', attempts: 3, reason: 'no' }),
        held(skipped, { state: 'skipped', attempts: 3, reason: 'Ann' }),
      ])
      const { erased, pending } = await eraseEvents(subject, relay)
      assert.equal(erased, 2)
      assert.deepEqual(
        pending.map(({ id, type, aggregate, state }) => [id, type, aggregate, state]),
        ([waiting, delayed, parked, unsent] as const).map((event, n) => {
          const state = ['waiting', 'delayed', 'parked', 'unsent'][n]
          return [event.id, typeOf(event), relay.aggregate, state]
        }),
      )
      const kept = (await relay.read()).filter((event) => !isErasedEvent(event))
      assert.deepEqual(
        kept.map(({ id, payload }) => [id, payload !== null]),
        [waiting, delayed, parked, unsent].map(({ id }) => [id, true]),
      )
      // A second destination has received nothing.
      const other = newKey()
      await relay.outbox.open({ destination: other, namespace: Math.floor(relay.shard / SHARDS) })
      await relay.publish('b', 1)
      const all = await relay.read()
      await relay.ack(mine, { cursor: (all.at(-1) as StoredEvent).seq, tryingTo: null, attempt: 0 })
      const second = await eraseEvents(subject, relay)
      assert.equal(second.erased, 0)
      assert.equal(second.pending.filter(({ state }) => state === 'unsent').length, 2)
      await relay.outbox.forget({ destination: other })
      assert.equal((await eraseEvents(subject, relay)).erased, 2)
    },
  },
  {
    name: 'erasure: without a destination no event counts as sent',
    async test(subject) {
      const relay = await relayAlone(subject)
      await relay.publish('a', 1)
      await relay.outbox.forget({ destination: relay.destination })
      const { erased, pending } = await eraseEvents(subject, relay)
      assert.deepEqual([erased, pending.map(({ state }) => state)], [0, ['unsent']])
    },
  },
  {
    name: 'erasure: an ordered event keeps its predecessor, and its successor finds it',
    async test(subject) {
      const relay = await relayAlone(subject)
      const ordered = { previous: null as unknown as string }
      await relay.publish('a', 2, ordered)
      const mine = await relay.lease()
      const before = await relay.read()
      await relay.ack(mine, { cursor: (before.at(-1) as StoredEvent).seq, tryingTo: null, attempt: 0 })
      assert.equal((await eraseEvents(subject, relay)).erased, 2)
      await relay.publish('b', 1, ordered)
      const previous = (await relay.read()).map(({ headers }) => (JSON.parse(headers ?? '') as typeof ordered).previous)
      const ids = before.map(({ id }) => id)
      assert.deepEqual(previous, [null, ...ids])
    },
  },
]
