import { strict as assert } from 'node:assert'
import { claimOf, commitOne, completing, DEADLINE_MS, isLater, LONG_MS, newKey, pass, winLease } from './make.ts'
import { recordOf } from './leases.ts'
import { oneWriter, type Case, type SqlSubject } from './subject.ts'

export const RETENTION_CASES: readonly Case[] = [
  {
    name: 'a sweep removes forgotten records and nothing else',
    async test(subject) {
      const { store } = subject
      const [live, expired, forgotten] = [
        claimOf(newKey()),
        claimOf(newKey(), 1, { replayForMs: 10 }),
        claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 10 }),
      ]
      for (const claim of [live, expired, forgotten]) await commitOne(subject, claim.id, claim)
      const running = claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 10 })
      await winLease(store, running)
      await pass(60)
      await sweepAll(subject)
      assert.equal((await recordOf(store, live)).state, 'completed')
      assert.equal((await recordOf(store, expired)).state, 'completed')
      assert.equal((await recordOf(store, running)).state, 'inProgress', 'a live lease was touched')
      assert.equal((await store.read({ id: forgotten.id })).record, null)
    },
  },
  {
    name: 'an operation in progress past its retention becomes unknown, and an unknown operation stays',
    async test(subject) {
      const { store } = subject
      const claim = claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 10 })
      const { token, life } = await winLease(store, claim, 10)
      await store.leases.finishStep({ id: claim.id, token, life, name: 'charge', result: '1' })
      await pass(60)
      await sweepAll(subject)
      assert.equal((await recordOf(store, claim)).state, 'unknown')
      await sweepAll(subject)
      assert.equal((await recordOf(store, claim)).state, 'unknown')
      assert.equal((await store.leases.steps({ id: claim.id, life })).length, 1)
    },
  },
  {
    name: 'a token is never used again, even after its record was swept',
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key, 1, { replayForMs: 10, goneForMs: 0 })
      const first = await commitOne(subject, key, claim)
      await pass(40)
      await sweepAll(subject)
      assert.equal((await store.read({ id: claim.id })).record, null)
      const second = await winLease(store, claim)
      assert.ok(isLater(second.token, first.token))
    },
  },
  {
    name: 'a sweep removes at most its limit, and reports when it is done',
    async test(subject) {
      const { store } = subject
      await sweepAll(subject)
      for (let i = 0; i < 3; i++)
        await commitOne(subject, 'swept', claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 0 }))
      await pass(40)
      const swept = await store.retention.sweep({ limit: 2, replayForMs: LONG_MS })
      assert.ok(swept.records <= 2)
      assert.equal(swept.finished, false)
      await sweepAll(subject)
      assert.equal((await store.retention.sweep({ limit: 1_000, replayForMs: LONG_MS })).records, 0)
    },
  },
  {
    name: 'concurrent sweeps remove each record once, and a sweep that removed nothing reports that',
    async test(subject) {
      const { store } = subject
      await sweepAll(subject)
      for (let i = 0; i < 5; i++)
        await commitOne(subject, 'swept', claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 0 }))
      await pass(40)
      const all = await Promise.all(
        Array.from({ length: 4 }, () => store.retention.sweep({ limit: 1_000, replayForMs: LONG_MS })),
      )
      for (const { skipped, records, troubles } of all) {
        assert.deepEqual(troubles, [])
        if (skipped) assert.equal(records, 0)
      }
      assert.ok(all.some(({ skipped }) => !skipped))
      assert.equal(
        all.reduce((sum, { records }) => sum + records, 0),
        5,
      )
    },
  },
  {
    name: 'a sweep skips records that another transaction has locked',
    needs: ['transactions'],
    unless: oneWriter,
    async test(subject) {
      const { store } = subject
      const short = { replayForMs: 10, goneForMs: 10 }
      const [forgotten, lapsed] = [claimOf(newKey(), 1, short), claimOf(newKey(), 1, short)]
      await commitOne(subject, forgotten.id, forgotten)
      const claimed = await winLease(store, lapsed, 10)
      await pass(60)
      const renewing = await store.begin({ claim: forgotten, deadlineMs: DEADLINE_MS })
      assert.ok(await renewing.session.renew(forgotten, await recordOf(store, forgotten)))
      const completes = await store.open({ deadlineMs: DEADLINE_MS })
      await completes.completeInside(completing(lapsed, claimed, '"late"', true))
      await sweepAll(subject)
      for (const session of [renewing.session, completes]) await session.rollback()
      assert.equal((await recordOf(store, forgotten)).state, 'completed')
      assert.equal((await recordOf(store, lapsed)).state, 'inProgress')
      await sweepAll(subject)
      assert.equal((await store.read({ id: forgotten.id })).record, null)
      assert.equal((await recordOf(store, lapsed)).state, 'unknown')
    },
  },
  {
    name: 'a second migration changes nothing',
    needs: ['schema'],
    async test({ store }) {
      const version = await store.schema.version()
      const all = await Promise.all([store.schema.migrate(), store.schema.migrate()])
      for (const { from, to } of all) assert.equal(from, to)
      assert.equal(await store.schema.version(), Math.max(version, ...all.map(({ to }) => to)))
    },
  },
]

export async function sweepAll({ store }: SqlSubject): Promise<void> {
  for (let finished = false; !finished;)
    ({ finished } = await store.retention.sweep({ limit: 10_000, replayForMs: LONG_MS }))
}
