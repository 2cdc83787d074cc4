import { strict as assert } from 'node:assert'
import type { InboxItem } from '../../store/inbox.ts'
import { apply, itemOf, letterOf, opened, park } from './inbox-make.ts'
import { newKey } from './make.ts'
import type { Case, SqlSubject } from './subject.ts'

const NO_LETTERS = { namespace: 0, tenant: null, aggregates: [], after: 0, limit: 1_000, dryRun: false }

export const ERASED_LETTER_CASES: readonly Case[] = [
  {
    name: 'erasure: letters of a tenant and of aggregates lose their content, and stay settled',
    async test(subject) {
      const { store } = subject
      const consumer = await opened(subject)
      const [tenant, aggregate] = [newKey(), newKey()]
      const personal = { error: 'Ann', body: 'Ann', shown: 'A', causes: '["Ann"]', headers: '{"name":"Ann"}' }
      const items = ['1', '2', '3', '4'].map((n) =>
        itemOf(consumer, `${newKey()}-${n}`, n === '1' ? {} : { aggregate }),
      )
      const [ofTenant, ofAggregate, otherType, settled] = items as [InboxItem, InboxItem, InboxItem, InboxItem]
      await park(subject, consumer, [
        letterOf(ofTenant, { ...personal, tenant }),
        letterOf(ofAggregate, personal),
        letterOf(otherType, { ...personal, type: 'invoice.sent' }),
      ])
      await park(subject, consumer, [letterOf(settled, personal)])
      await apply(subject, consumer, [settled], true)
      const aggregates = [{ type: 'order', id: aggregate }]
      const dry = { ...NO_LETTERS, tenant, aggregates, dryRun: true }
      assert.deepEqual(await eraseLetters(subject, dry), { erased: 3, discarded: 2, redriving: [] })
      assert.equal((await store.inbox.letters.get({ id: ofTenant.id }))?.body, 'Ann')
      assert.deepEqual(await eraseLetters(subject, { ...NO_LETTERS, namespace: 7, tenant, aggregates }), NONE)
      assert.deepEqual(await eraseLetters(subject, { ...NO_LETTERS, tenant, aggregates }), {
        ...NONE,
        erased: 3,
        discarded: 2,
      })
      assert.deepEqual(await eraseLetters(subject, { ...NO_LETTERS, tenant, aggregates }), NONE)
      for (const [{ id }, state] of [
        [ofTenant, 'discarded'],
        [ofAggregate, 'discarded'],
        [settled, 'redriven'],
      ] as const) {
        const letter = await store.inbox.letters.get({ id })
        assert.ok(letter)
        assert.equal(letter.state, state)
        assert.ok(!JSON.stringify(letter).includes('Ann'))
        assert.deepEqual([letter.aggregate, letter.tenant, letter.body], [null, null, ''])
        assert.ok(letter.settledAt !== null)
      }
      assert.equal((await store.inbox.letters.get({ id: otherType.id }))?.body, 'Ann')
      // A redelivery is a duplicate: it does not run again.
      assert.deepEqual(await apply(subject, consumer, [ofTenant]), ['parked'])
    },
  },
  {
    name: 'erasure: letters of a redrive that has not ended stay and are named; then their copies go too',
    async test(subject) {
      const { redrives } = subject.store
      const consumer = await opened(subject)
      const tenant = newKey()
      const item = itemOf(consumer, newKey())
      await park(subject, consumer, [letterOf(item, { tenant, body: 'Ann' })])
      const by = { by: 'ada', why: 'mended' }
      const pace = { canary: 0, canaryStops: false, rate: 50, pauseAt: 1, prepare: true, force: true, reorder: true }
      const created = await redrives.create({ filter: { consumer, ids: [item.id] }, ...by, asked: '{}', ...pace })
      assert.ok(created.kind === 'created')
      const { redrive } = created
      await redrives.copy({ redrive, copies: [{ ord: 1, body: 'Ann, mended' }] })
      const all = { ...NO_LETTERS, tenant }
      assert.deepEqual(await eraseLetters(subject, all), { ...NONE, redriving: [{ id: item.id, redrive }] })
      const from = ['preparing', 'running'] as const
      assert.ok(await redrives.change({ redrive, from, to: 'aborted', reason: null, ...by, action: 'abort' }))
      assert.deepEqual(await eraseLetters(subject, all), { ...NONE, erased: 1, discarded: 1 })
      const items = await redrives.items({ redrive, outcomes: ['pending', 'gone'], after: 0, limit: 10 })
      assert.ok(!JSON.stringify(items).includes('Ann'))
    },
  },
]

const NONE = { erased: 0, discarded: 0, redriving: [] as { id: string; redrive: number | null }[] }

async function eraseLetters({ store }: SqlSubject, params: typeof NO_LETTERS | object): Promise<typeof NONE> {
  const all = { ...NONE, redriving: [...NONE.redriving] }
  let after: number | null = 0
  while (after !== null) {
    const part = await store.erasure.letters({ ...NO_LETTERS, ...params, after })
    all.erased += part.erased
    all.discarded += part.discarded
    all.redriving.push(...part.redriving)
    after = part.next
  }
  return all
}
