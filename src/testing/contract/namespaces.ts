import { strict as assert } from 'node:assert'
import { SHARDS } from '../../limits.ts'
import { newUuid } from '../../platform/uuid.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { storedName } from '../../store/namespaced/names.ts'
import type { Namespaces } from '../../store/namespaces.ts'
import { inboxOf, itemOf, letterOf, opened, park } from './inbox-make.ts'
import { claimOf, completing, newKey, win } from './make.ts'
import { eventOf, LEASE_MS } from './relayer.ts'
import type { Case, SqlSubject } from './subject.ts'

const unless = ({ store }: SqlSubject): string | null =>
  store.namespaces && store.outbox && store.inbox ? null : 'one namespace has the store to itself'

const namespacesOf = ({ store }: SqlSubject): Namespaces<unknown> => store.namespaces

export const NAMESPACE_CASES: readonly Case[] = [
  {
    name: 'namespaces: concurrent registrations of a name get the same number',
    unless,
    async test(subject) {
      const namespaces = namespacesOf(subject)
      const [a, b] = [newKey(), newKey()]
      const numbers = await Promise.all([a, b, a, b].map((name) => namespaces.register({ name })))
      assert.deepEqual(numbers.slice(0, 2), numbers.slice(2))
      assert.notEqual(numbers[0], numbers[1])
      assert.equal(await namespaces.register({ name: a }), numbers[0])
      const known = await namespaces.list()
      assert.equal(known.find(({ name }) => name === b)?.no, numbers[1])
      assert.deepEqual(
        known.map(({ no }) => no),
        known.map((_, no) => no),
      )
    },
  },
  {
    name: 'namespaces: a registration in a transaction is visible after its commit, and not before',
    unless: (subject) => unless(subject) ?? (subject.transaction ? null : 'the subject has no `transaction`'),
    async test(subject) {
      const namespaces = namespacesOf(subject)
      const name = newKey()
      const known = async (): Promise<boolean> => (await namespaces.list()).some((one) => one.name === name)
      const register = (fails: boolean): Promise<number> | undefined =>
        subject.transaction?.(async (tx) => {
          const session = await subject.store.join(tx)
          const no = await namespaces.registerInside(session, { name })
          assert.equal(await namespaces.registerInside(session, { name }), no)
          if (fails) throw new Error('no')
          return no
        })
      await assert.rejects(register(true) ?? Promise.reject(new Error('no')), /no/)
      assert.equal(await known(), false)
      const no = await register(false)
      assert.equal(await known(), true)
      assert.equal(await namespaces.register({ name }), no)
    },
  },
  {
    name: 'namespaces: a destination has its own shards, and gets only events of its namespace',
    unless,
    async test(subject) {
      const { store } = subject
      const outbox = store.outbox
      // This name may take number 0, so that the next namespace has another number.
      await namespacesOf(subject).register({ name: newKey() })
      const namespace = await namespacesOf(subject).register({ name: newKey() })
      const destination = storedName(namespace, newKey())
      await outbox.open({ destination, namespace })
      const aggregate = newKey()
      const claim = claimOf(newKey())
      const { session, claimed } = await win(store, claim)
      const events = [0, namespace].map((no) => ({
        ...eventOf(aggregate, `of ${no}`),
        shard: shardOf(aggregate, no),
      }))
      assert.equal(await session.complete({ ...completing(claim, claimed, '1'), events }), 'committed')
      const leased = await outbox.lease({ destination, relay: newUuid(), leaseMs: LEASE_MS, limit: SHARDS * 2 })
      assert.deepEqual(
        leased.map(({ shard }) => shard).sort((x, y) => x - y),
        Array.from({ length: SHARDS }, (_, n) => namespace * SHARDS + n),
      )
      const from = leased.map(({ shard, cursor, segment }) => ({ shard, cursor, segment }))
      const read = await outbox.read({ destination, from, perShard: 100, limit: 100 })
      assert.deepEqual(
        read.events.map(({ id }) => id),
        [events[1]?.id],
      )
    },
  },
  {
    name: 'namespaces: dead letters and redrives are read by namespace',
    unless: (subject) => unless(subject) ?? (subject.store.redrives ? null : 'the store has no redrives'),
    async test(subject) {
      const { letters } = inboxOf(subject)
      const redrives = subject.store.redrives
      const [bare, other] = [await opened(subject), storedName(3, newKey())]
      await inboxOf(subject).open({ consumer: other, inboxForMs: 1e9, rememberForMs: 1e9, lettersForMs: 1e9 })
      const source = newKey()
      for (const consumer of [bare, other]) {
        await park(subject, consumer, [letterOf(itemOf(consumer, newKey(), { source }))])
      }
      const consumersOf = async (namespace: number): Promise<string[]> =>
        (await letters.list({ filter: { source, namespace }, limit: 10 })).map(({ consumer }) => consumer)
      assert.deepEqual([await consumersOf(0), await consumersOf(3), await consumersOf(-1)], [[bare], [other], []])
      assert.equal((await letters.count({ filter: { source, namespace: 3 } })).total, 1)
      const asked = { by: 'a', why: 'b', asked: '{}', prepare: false, canary: 0, canaryStops: false }
      const paced = { rate: 1, pauseAt: 1, force: true, reorder: true }
      const filter = { source, consumer: other, namespace: 3 }
      const created = await redrives.create({ ...asked, ...paced, filter })
      assert.equal(created.kind, 'created')
      const mine = (await redrives.list({ limit: 1_000, namespace: 3 })).map(({ consumer }) => consumer)
      assert.deepEqual([mine.includes(other), mine.includes(bare)], [true, false])
      assert.deepEqual(
        (await redrives.list({ limit: 1_000, namespace: 0 })).filter(({ consumer }) => consumer === other),
        [],
      )
      await redrives.write({ by: source, action: 'discard', redrive: null, why: 'b', detail: '{}', namespace: 3 })
      const told = async (namespace: number): Promise<string[]> =>
        (await redrives.audit({ limit: 1_000, namespace })).map(({ by }) => by)
      assert.deepEqual([(await told(3)).includes(source), (await told(0)).includes(source)], [true, false])
      assert.equal(await letters.discard({ filter: { source, namespace: 0 }, limit: 10 }), 1)
      assert.deepEqual(await consumersOf(3), [other])
    },
  },
]
