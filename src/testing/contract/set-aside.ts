import { strict as assert } from 'node:assert'
import type { InboxItem } from '../../store/inbox.ts'
import { apply, itemOf, letterOf, NOTHING, park, reading, unless } from './inbox-make.ts'
import { DEADLINE_MS, newKey } from './make.ts'
import { oneWriter, type Case, type SqlSubject } from './subject.ts'

/** These cases need two open transactions at once. */
const unlessAlone = (subject: SqlSubject): string | null => unless(subject) ?? oneWriter(subject)

const NOT_PARKED: Case = {
  name: 'inbox: a message that runs elsewhere is not parked, and no position passes it',
  unless: unlessAlone,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const [a, b] = [itemOf(consumer, newKey()), itemOf(consumer, newKey())]
    const set = (...items: readonly InboxItem[]): Promise<readonly string[]> => {
      const positions = { source: 'log', positions: [{ partition: 'p', next: '7' }] }
      return inbox.park({ consumer, letters: items.map((item) => letterOf(item)), positions, deadlineMs: DEADLINE_MS })
    }
    const lettersOf = async (): Promise<unknown[]> =>
      (await inbox.letters.list({ filter: { consumer }, limit: 10 })).map(({ id }) => id)
    const failure = { counted: false, error: 'no', fingerprint: 'f' }
    await inbox.failed({ consumer, failures: [a, b].map(({ id }) => ({ ...failure, id })) })
    const { session } = await inbox.take({ consumer, items: [a], deadlineMs: DEADLINE_MS })
    await subject.effect(session.session.tx, a.message)
    assert.deepEqual(await set(b, a), [a.id])
    assert.deepEqual(await lettersOf(), [b.id])
    assert.deepEqual(await inbox.positions({ consumer, source: 'log' }), [])
    assert.deepEqual(
      (await inbox.tries({ consumer, ids: [a.id, b.id] })).map(({ id }) => id),
      [a.id],
    )
    assert.equal(await session.complete({ consumer, ...NOTHING, tried: [a.id] }), 'committed')
    assert.deepEqual(await set(a), [])
    assert.deepEqual(await lettersOf(), [b.id])
    assert.deepEqual(await inbox.positions({ consumer, source: 'log' }), [{ partition: 'p', next: '7' }])
    assert.equal(await subject.effects(a.message), 1)
  },
}

const IN_ORDER: Case = {
  name: 'inbox: behind a message that runs elsewhere, later messages of its aggregate are not parked',
  unless: unlessAlone,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const aggregate = newKey()
    const make = (): InboxItem => itemOf(consumer, newKey(), { aggregate })
    const [first, runs, last] = [make(), make(), make()]
    const other = itemOf(consumer, newKey(), { aggregate: newKey() })
    const letters = [first, runs, last, other].map((item) => letterOf(item))
    const { session } = await inbox.take({ consumer, items: [runs], deadlineMs: DEADLINE_MS })
    assert.deepEqual(await park(subject, consumer, letters), [runs.id, last.id])
    await session.rollback()
    assert.deepEqual(await park(subject, consumer, letters), [])
    const parked = await inbox.letters.list({ filter: { consumer }, limit: 10 })
    assert.deepEqual(
      parked.map(({ id }) => id),
      [first, other, runs, last].map(({ id }) => id),
    )
  },
}

const ROLLED_BACK: Case = {
  name: 'inbox: a message that ran elsewhere is parked after its rollback',
  unless: unlessAlone,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const item = itemOf(consumer, newKey())
    const { session } = await inbox.take({ consumer, items: [item], deadlineMs: DEADLINE_MS })
    assert.deepEqual(await park(subject, consumer, [letterOf(item)]), [item.id])
    await session.rollback()
    assert.deepEqual(await park(subject, consumer, [letterOf(item)]), [])
    assert.deepEqual(await apply(subject, consumer, [item]), ['parked'])
    assert.equal(await subject.effects(item.message), 0)
  },
}

const DISCARDED: Case = {
  name: 'inbox: a discarded message lets its successors pass if all its predecessors do',
  unless,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const aggregate = newKey()
    const chain: InboxItem[] = []
    for (let n = 0; n < 5; n++)
      chain.push(itemOf(consumer, newKey(), { aggregate, previous: chain[n - 1]?.id ?? null }))
    const [first, second, third, fourth, fifth] = chain as [InboxItem, InboxItem, InboxItem, InboxItem, InboxItem]
    const discard = (...items: InboxItem[]): Promise<number> =>
      inbox.letters.discard({ filter: { consumer, ids: items.map(({ id }) => id) }, limit: 10 })
    const looks = (item: InboxItem): Promise<unknown> => inbox.look({ consumer, items: [item], redrive: true })
    await park(subject, consumer, [letterOf(first)])
    await park(
      subject,
      consumer,
      [second, third, fourth].map((item) => letterOf(item, { reason: 'behind' })),
    )
    assert.equal(await discard(second, third), 2)
    assert.deepEqual(await looks(fourth), ['early'])
    assert.deepEqual(await apply(subject, consumer, [first], true), ['taken'])
    assert.deepEqual(await looks(fourth), ['taken'])
    assert.equal(await discard(fourth), 1)
    assert.deepEqual(await apply(subject, consumer, [fifth]), ['taken'])
  },
}

const ORPHANED: Case = {
  name: 'inbox: successors of a discarded message go on until its missing predecessor arrives and is parked',
  unless,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const lost = itemOf(consumer, newKey())
    const orphan = itemOf(consumer, newKey(), { previous: lost.id })
    const next = itemOf(consumer, newKey(), { previous: orphan.id })
    const looks = (item: InboxItem): Promise<unknown> => inbox.look({ consumer, items: [item] })
    await park(subject, consumer, [letterOf(orphan, { reason: 'orphaned' })])
    assert.deepEqual(await looks(next), ['early'])
    assert.equal(await inbox.letters.discard({ filter: { consumer }, limit: 10 }), 1)
    assert.deepEqual(await looks(next), ['taken'])
    await park(subject, consumer, [letterOf(lost)])
    assert.deepEqual(await looks(next), ['early'])
    assert.equal(await inbox.letters.discard({ filter: { consumer }, limit: 10 }), 1)
    assert.deepEqual(await looks(next), ['taken'])
  },
}

const KEPT: Case = {
  name: 'inbox: a discarded letter is kept while its aggregate has a parked letter',
  unless,
  async test(subject) {
    const { consumer, inbox } = await reading(subject, { lettersForMs: 0 })
    const aggregate = newKey()
    const first = itemOf(consumer, newKey(), { aggregate })
    const second = itemOf(consumer, newKey(), { aggregate, previous: first.id })
    const alone = itemOf(consumer, newKey(), { aggregate: newKey() })
    const swept = async (): Promise<unknown[]> => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      await inbox.sweep({ limit: 100_000 })
      return (await inbox.letters.list({ filter: { consumer }, limit: 10 })).map(({ id }) => id)
    }
    await park(subject, consumer, [letterOf(first), letterOf(second, { reason: 'behind' }), letterOf(alone)])
    const ids = [first.id, alone.id]
    assert.equal(await inbox.letters.discard({ filter: { consumer, ids }, limit: 10 }), 2)
    assert.deepEqual(await swept(), [first.id, second.id])
    assert.deepEqual(await apply(subject, consumer, [second], true), ['taken'])
    assert.deepEqual(await swept(), [])
  },
}

const SET_ASIDE_BEFORE: Case = {
  name: 'inbox: a message that became a dead letter while it ran is not committed, and does not count as failed',
  unless: unlessAlone,
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    for (const redrive of [false, true]) {
      const [a, b] = [itemOf(consumer, newKey()), itemOf(consumer, newKey())]
      const { session } = await inbox.take({ consumer, items: [a, b], deadlineMs: DEADLINE_MS, redrive })
      await subject.effect(session.session.tx, a.message)
      // The letter uses the lock of another message. So the park succeeds between the look at `b` and its lock.
      const { lock } = itemOf(consumer, newKey())
      assert.deepEqual(await park(subject, consumer, [{ ...letterOf(b), lock }]), [])
      const ending = session.complete({ consumer, ...NOTHING })
      if (redrive) assert.equal(await ending, 'committed')
      else await assert.rejects(ending, { code: 'ONCE_CONFLICT' })
      await session.rollback()
      assert.deepEqual(
        await inbox.look({ consumer, items: [a, b] }),
        redrive ? ['duplicate', 'duplicate'] : ['taken', 'parked'],
      )
      assert.equal(await subject.effects(a.message), redrive ? 1 : 0)
    }
  },
}

const importing = (subject: SqlSubject, consumer: string, ...items: InboxItem[]): Promise<unknown> => {
  const of = { consumer, timeline: '[]', parkedAt: Date.now() }
  return subject.store.redrives.import({ letters: items.map((item) => ({ ...letterOf(item), ...of })) })
}

const IMPORTED: Case = {
  name: 'redrives: an import writes new letters in order, and skips known and applied ones',
  unless: (subject) => (subject.store.redrives ? unless(subject) : 'the store has no redrives'),
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const items = [1, 2, 3, 4].map(() => itemOf(consumer, newKey()))
    const [applied, known, second, first] = items as [InboxItem, InboxItem, InboxItem, InboxItem]
    await apply(subject, consumer, [applied])
    await park(subject, consumer, [letterOf(known)])
    const nobody = { busy: [] }
    assert.deepEqual(await importing(subject, consumer, first, applied, second, known), {
      imported: 2,
      applied: 1,
      ...nobody,
    })
    assert.deepEqual(await importing(subject, consumer, first, applied), { imported: 0, applied: 1, ...nobody })
    const letters = await inbox.letters.list({ filter: { consumer }, limit: 10 })
    assert.deepEqual(
      letters.map(({ id }) => id),
      [known.id, first.id, second.id],
    )
    assert.deepEqual(await apply(subject, consumer, [first]), ['parked'])
  },
}

const NOT_IMPORTED: Case = {
  name: 'redrives: an import leaves out running messages, and reports them',
  unless: (subject) => (subject.store.redrives ? unlessAlone(subject) : 'the store has no redrives'),
  async test(subject) {
    const { consumer, inbox } = await reading(subject)
    const [a, b] = [itemOf(consumer, newKey()), itemOf(consumer, newKey())]
    const { session } = await inbox.take({ consumer, items: [a], deadlineMs: DEADLINE_MS })
    await subject.effect(session.session.tx, a.message)
    assert.deepEqual(await importing(subject, consumer, b, a), { imported: 1, applied: 0, busy: [a.id] })
    assert.equal(await session.complete({ consumer, ...NOTHING }), 'committed')
    assert.deepEqual(await importing(subject, consumer, a), { imported: 0, applied: 1, busy: [] })
    assert.deepEqual(
      (await inbox.letters.list({ filter: { consumer }, limit: 10 })).map(({ id }) => id),
      [b.id],
    )
    assert.equal(await subject.effects(a.message), 1)
  },
}

export const SET_ASIDE_CASES: readonly Case[] = [
  NOT_PARKED,
  IN_ORDER,
  ROLLED_BACK,
  SET_ASIDE_BEFORE,
  IMPORTED,
  NOT_IMPORTED,
  DISCARDED,
  ORPHANED,
  KEPT,
]
