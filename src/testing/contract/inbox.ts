import { strict as assert } from 'node:assert'
import { messageIdentity } from '../../consumer/inbox/identity.ts'
import type { CompleteInboxParams, InboxItem } from '../../store/inbox.ts'
import { apply, inboxOf, itemOf, letterOf, NOTHING, opened, park, reading, unless } from './inbox-make.ts'
import { DEADLINE_MS, LONG_MS, newKey } from './make.ts'
import { oneWriter, type Case, type SqlSubject } from './subject.ts'

type Three = [InboxItem, InboxItem, InboxItem]

type Subject = SqlSubject

const CASES: Readonly<Record<string, (subject: Subject) => Promise<void>>> = {
  async 'one of two deliveries of a message is taken, in one batch or in two'(subject) {
    const consumer = await opened(subject)
    const [a, b] = [itemOf(consumer, newKey()), itemOf(consumer, newKey())]
    assert.deepEqual(await apply(subject, consumer, [a]), ['taken'])
    assert.deepEqual(await apply(subject, consumer, [b, a]), ['taken', 'duplicate'])
    assert.deepEqual([await subject.effects(a.message), await subject.effects(b.message)], [1, 1])
    assert.deepEqual(await inboxOf(subject).look({ consumer, items: [b, itemOf(consumer, 'new')] }), [
      'duplicate',
      'taken',
    ])
  },
  async 'a rolled-back row does not count as a duplicate'(subject) {
    const consumer = await opened(subject)
    const item = itemOf(consumer, newKey())
    const { states, session } = await inboxOf(subject).take({ consumer, items: [item], deadlineMs: DEADLINE_MS })
    assert.deepEqual(states, ['taken'])
    await subject.effect(session.session.tx, item.message)
    await session.rollback()
    assert.deepEqual(await apply(subject, consumer, [item]), ['taken'])
    assert.equal(await subject.effects(item.message), 1)
  },
  async 'the same id of another consumer or source is no duplicate'(subject) {
    const [one, two] = [await opened(subject), await opened(subject)]
    const message = newKey()
    assert.deepEqual(await apply(subject, one, [itemOf(one, message)]), ['taken'])
    assert.deepEqual(await apply(subject, two, [itemOf(two, message)]), ['taken'])
    const other = { ...messageIdentity({ consumer: one, source: 'other', message }), source: 'other' }
    assert.deepEqual(await apply(subject, one, [itemOf(one, message, other)]), ['taken'])
  },
  async 'a message is early until its predecessor is applied, skipped or discarded'(subject) {
    const { consumer, inbox } = await reading(subject)
    const [first, second, third] = [1, 2, 3].map(() => newKey()) as [string, string, string]
    const items = [
      itemOf(consumer, first),
      itemOf(consumer, second, { previous: itemOf(consumer, first).id }),
      itemOf(consumer, third, { previous: itemOf(consumer, second).id }),
    ] as const
    assert.deepEqual(await apply(subject, consumer, [items[1]]), ['early'])
    await apply(subject, consumer, [items[0]])
    assert.deepEqual(await inbox.look({ consumer, items: [items[1], items[2]] }), ['taken', 'early'])
    await park(subject, consumer, [letterOf(items[1], { state: 'skipped' })])
    assert.deepEqual(await apply(subject, consumer, [items[1], items[2]]), ['parked', 'taken'])
  },
  async 'a parked message is not run, its aggregate waits behind it, and a redrive runs it once'(subject) {
    const { consumer, inbox } = await reading(subject)
    const aggregate = newKey()
    const [a, b] = [itemOf(consumer, newKey(), { aggregate }), itemOf(consumer, newKey(), { aggregate })]
    await inbox.failed({ consumer, failures: [{ id: a.id, counted: false, error: 'first', fingerprint: 'f1' }] })
    await park(subject, consumer, [letterOf(a)])
    await park(subject, consumer, [letterOf(a, { error: 'again' })])
    assert.deepEqual(await apply(subject, consumer, [a, b]), ['parked', 'behind'])
    await park(subject, consumer, [letterOf(b, { reason: 'behind' })])
    const [head, behind, ...others] = await inbox.letters.list({ filter: { consumer }, limit: 10 })
    assert.equal(others.length, 0)
    assert.deepEqual([head?.message, head?.blocks, head?.error, behind?.reason], [a.message, 1, 'no', 'behind'])
    const timeline = JSON.parse(head?.timeline ?? '[]') as { error: string; at: number }[]
    assert.deepEqual(
      timeline.map(({ error }) => error),
      ['first'],
    )
    assert.ok(Math.abs((timeline[0]?.at ?? 0) - Date.now()) < LONG_MS)
    assert.deepEqual(await apply(subject, consumer, [a], true), ['taken'])
    assert.deepEqual(await apply(subject, consumer, [a], true), ['duplicate'])
    assert.equal(await subject.effects(a.message), 1)
    assert.equal((await inbox.letters.get({ id: a.id }))?.state, 'redriven')
    assert.deepEqual(await apply(subject, consumer, [a]), ['duplicate'])
    assert.equal(await inbox.letters.discard({ filter: { consumer }, limit: 10 }), 1)
    assert.deepEqual(await apply(subject, consumer, [b]), ['parked'])
  },
  async 'a message that was parked while it ran is applied only by a redrive'(subject) {
    const { consumer, inbox } = await reading(subject)
    const item = itemOf(consumer, newKey())
    const enter = async (redrive: boolean): Promise<boolean> => {
      const { session } = await inbox.take({ consumer, items: [], deadlineMs: DEADLINE_MS })
      const entered = await inbox.enter(session.session, { consumer, item, redrive })
      if (entered) await session.complete({ consumer, ...NOTHING })
      else await session.rollback()
      return entered
    }
    await park(subject, consumer, [letterOf(item, { state: 'skipped', reason: 'crashed' })])
    assert.equal(await enter(false), false)
    assert.equal(await enter(true), true)
    assert.equal(await enter(true), false)
  },
  async 'an applied message is never parked'(subject) {
    const consumer = await opened(subject)
    const item = itemOf(consumer, newKey())
    await apply(subject, consumer, [item])
    await park(subject, consumer, [letterOf(item)])
    assert.equal(await inboxOf(subject).letters.get({ id: item.id }), null)
  },
  async 'a message that is only a mark is never parked'(subject) {
    const consumer = await opened(subject, { inboxForMs: 0 })
    const item = itemOf(consumer, newKey())
    await apply(subject, consumer, [item])
    await new Promise((resolve) => setTimeout(resolve, 5))
    await inboxOf(subject).sweep({ limit: 100_000 })
    assert.deepEqual(await park(subject, consumer, [letterOf(item)]), [])
    assert.equal(await inboxOf(subject).letters.get({ id: item.id }), null)
  },
  async 'attempts are counted before and after a handler, and removed with the effect'(subject) {
    const { consumer, inbox } = await reading(subject)
    const item = itemOf(consumer, newKey())
    const failure = { id: item.id, counted: false, error: 'a "quoted" {error}', fingerprint: 'f' }
    assert.deepEqual((await inbox.failed({ consumer, failures: [failure] }))[0]?.attempts, 1)
    const tries = async (): Promise<unknown[]> =>
      (await inbox.trying({ consumer, ids: [item.id] })).map(({ attempts, unfinished }) => [attempts, unfinished])
    assert.deepEqual(await tries(), [[2, 0]])
    assert.deepEqual(await tries(), [[3, 1]])
    const [known, ...others] = await inbox.tries({ consumer, ids: [item.id, itemOf(consumer, 'other').id] })
    assert.deepEqual([known?.attempts, known?.unfinished, others.length], [3, 2, 0])
    const [after] = await inbox.failed({ consumer, failures: [{ ...failure, counted: true }] })
    assert.deepEqual([after?.attempts, after?.unfinished, after?.timeline.length], [3, 0, 2])
    assert.equal(after?.timeline[0]?.error, failure.error)
    const { session } = await inbox.take({ consumer, items: [item], deadlineMs: DEADLINE_MS })
    await session.complete({ consumer, ...NOTHING, tried: [item.id] })
    assert.deepEqual(await tries(), [[1, 0]])
  },
  async 'an attempt that did not begin is not counted, and other attempts stay counted'(subject) {
    const { consumer, inbox } = await reading(subject)
    const [once, twice, failing, never] = [1, 2, 3, 4].map(() => itemOf(consumer, newKey()).id) as [
      string,
      string,
      string,
      string,
    ]
    await inbox.trying({ consumer, ids: [once, twice, failing] })
    await inbox.trying({ consumer, ids: [twice] })
    const failure = { id: failing, counted: true, error: 'e', fingerprint: 'f' }
    await inbox.failed({ consumer, failures: [failure] })
    await inbox.trying({ consumer, ids: [failing] })
    const ids = [never, failing, twice, once]
    await inbox.untry({ consumer, ids })
    const known = new Map((await inbox.tries({ consumer, ids })).map((tries) => [tries.id, tries]))
    assert.equal(known.size, 2)
    assert.deepEqual([known.get(twice)?.attempts, known.get(twice)?.unfinished], [1, 1])
    assert.deepEqual([known.get(failing)?.attempts, known.get(failing)?.unfinished], [1, 0])
    assert.equal(known.get(failing)?.timeline.length, 1)
    await inbox.untry({ consumer, ids: [] })
  },
  async 'positions commit with the effect, and never decrease'(subject) {
    const { consumer, inbox } = await reading(subject)
    const at = async (): Promise<string | undefined> =>
      (await inbox.positions({ consumer, source: 'log' })).find(({ partition }) => partition === 'orders/0')?.next
    const move = (next: string): CompleteInboxParams['positions'] => ({
      source: 'log',
      positions: [{ partition: 'orders/0', next }],
    })
    const moving = async (next: string, commit: boolean): Promise<void> => {
      const { session } = await inbox.take({ consumer, items: [], deadlineMs: DEADLINE_MS })
      if (commit) await session.complete({ consumer, ...NOTHING, positions: move(next) })
      else await session.rollback()
    }
    await moving('7', false)
    assert.equal(await at(), undefined)
    await moving('9007199254740995', true)
    await moving('8', true)
    assert.equal(await at(), '9007199254740995')
    await inbox.pass({ consumer, source: 'log', positions: [{ partition: 'orders/0', next: '9007199254740999' }] })
    assert.equal(await at(), '9007199254740999')
  },
  async 'a position does not advance in a database that lags behind the consumer'(subject) {
    const { consumer, inbox } = await reading(subject)
    const pass = (next: string, from?: string): Promise<void> =>
      inbox.pass({ consumer, source: 'log', positions: [{ partition: 'orders/0', next, from }] })
    const at = async (): Promise<unknown> => inbox.positions({ consumer, source: 'log' })
    await pass('7', '5')
    assert.deepEqual(await at(), [])
    await pass('7')
    await pass('9', '7')
    assert.deepEqual(await at(), [{ partition: 'orders/0', next: '9' }])
    await pass('12', '10')
    assert.deepEqual(await at(), [{ partition: 'orders/0', next: '9' }])
  },
  async 'a position does not advance in a database that lost settled messages'(subject) {
    const { consumer, inbox } = await reading(subject)
    const [applied, parked, forgotten] = [newKey(), newKey(), newKey()].map((key) => itemOf(consumer, key)) as Three
    await apply(subject, consumer, [applied])
    await park(subject, consumer, [letterOf(parked)])
    const pass = async (next: string, witnesses: readonly InboxItem[]): Promise<unknown> => {
      const ids = witnesses.map(({ id }) => id)
      await inbox.pass({ consumer, source: 'log', positions: [{ partition: 'orders/0', next, witnesses: ids }] })
      return inbox.positions({ consumer, source: 'log' })
    }
    assert.deepEqual(await pass('5', [applied, forgotten]), [])
    assert.deepEqual(await pass('7', [applied, parked]), [{ partition: 'orders/0', next: '7' }])
    assert.deepEqual(await pass('9', [forgotten]), [{ partition: 'orders/0', next: '7' }])
    await apply(subject, consumer, [forgotten])
    assert.deepEqual(await pass('9', [applied, parked, forgotten]), [{ partition: 'orders/0', next: '9' }])
  },
  async 'an old row becomes a mark, which still detects duplicates'(subject) {
    const consumer = await opened(subject, { inboxForMs: 0 })
    const item = itemOf(consumer, newKey())
    await apply(subject, consumer, [item])
    await new Promise((resolve) => setTimeout(resolve, 5))
    assert.ok((await inboxOf(subject).sweep({ limit: 100_000 })).marked > 0)
    assert.deepEqual(await apply(subject, consumer, [item]), ['duplicate'])
    const next = itemOf(consumer, newKey(), { previous: item.id })
    assert.deepEqual(await apply(subject, consumer, [next]), ['taken'])
    assert.equal(await subject.effects(item.message), 1)
  },
  async 'rows past their retention are removed'(subject) {
    const consumer = await opened(subject, { inboxForMs: 0, rememberForMs: 0 })
    const item = itemOf(consumer, newKey())
    await apply(subject, consumer, [item])
    await new Promise((resolve) => setTimeout(resolve, 5))
    await inboxOf(subject).sweep({ limit: 100_000 })
    assert.deepEqual(await apply(subject, consumer, [item]), ['taken'])
  },
  async 'dead letters are filtered and counted'(subject) {
    const { consumer, inbox } = await reading(subject)
    const items = [1, 2, 3].map((n) => itemOf(consumer, newKey(), { aggregate: `a${n}` }))
    const letters = items.map((item, n) =>
      letterOf(item, { fingerprint: n === 0 ? 'f1' : 'f2', tenant: `t${n}`, type: n === 2 ? 'other' : 'order.placed' }),
    )
    await park(subject, consumer, letters)
    const { total, groups, oldestAt } = await inbox.letters.count({ filter: { consumer } })
    assert.equal(total, 3)
    assert.ok(oldestAt !== null && Math.abs(oldestAt - Date.now()) < LONG_MS)
    assert.deepEqual(
      groups.map(({ fingerprint, count }) => [fingerprint, count]),
      [
        ['f2', 2],
        ['f1', 1],
      ],
    )
    const found = async (filter: object): Promise<number> =>
      (await inbox.letters.list({ filter: { consumer, ...filter }, limit: 10 })).length
    const hour = 3_600_000
    assert.deepEqual(
      [
        await found({ tenant: 't1' }),
        await found({ type: 'other' }),
        await found({ aggregate: 'a1', source: 'shop' }),
        await found({ states: ['redriven'] }),
        await found({ reason: 'failed', fingerprint: 'f2' }),
        await found({ from: Date.now() - hour, to: Date.now() + hour }),
        await found({ to: Date.now() - hour }),
      ],
      [1, 1, 1, 0, 2, 3, 0],
    )
  },
  async 'a message is applied once in a transaction of the caller'(subject) {
    const { consumer, inbox } = await reading(subject)
    const item = itemOf(consumer, newKey())
    const session = async (): Promise<boolean> => {
      const { session: open } = await inbox.take({ consumer, items: [], deadlineMs: DEADLINE_MS })
      const entered = await inbox.enter(open.session, { consumer, item })
      await open.complete({ consumer, ...NOTHING })
      return entered
    }
    assert.equal(await session(), true)
    assert.equal(await session(), false)
    assert.deepEqual(await inbox.look({ consumer, items: [item] }), ['duplicate'])
  },
}

const BUSY: Case = {
  name: 'inbox: a message that another transaction runs is busy, and the batch does not wait for it',
  unless: (subject) => unless(subject) ?? oneWriter(subject),
  async test(subject) {
    const consumer = await opened(subject)
    const [a, b] = [itemOf(consumer, newKey()), itemOf(consumer, newKey())]
    const { session } = await inboxOf(subject).take({ consumer, items: [a], deadlineMs: DEADLINE_MS })
    assert.deepEqual(await apply(subject, consumer, [b, a]), ['taken', 'busy'])
    await session.complete({ consumer, ...NOTHING })
    assert.deepEqual(await apply(subject, consumer, [a]), ['duplicate'])
  },
}

export const INBOX_CASES: readonly Case[] = [
  ...Object.entries(CASES).map(([name, test]) => ({ name: `inbox: ${name}`, unless, test })),
  BUSY,
]
