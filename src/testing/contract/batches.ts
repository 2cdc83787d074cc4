import { strict as assert } from 'node:assert'
import type { Batches, Claim, UserStatement } from '../../store/store.ts'
import {
  answerOf,
  assertLives,
  claimOf,
  commitOne,
  completing,
  DEADLINE_MS,
  isLater,
  newKey,
  pass,
  win,
} from './make.ts'
import type { Times } from './make.ts'
import { lacks, oneWriter } from './subject.ts'
import type { Case, SqlSubject } from './subject.ts'

const unable = (subject: SqlSubject): string | null =>
  subject.store.batches === undefined ? 'no batches' : lacks('statement')(subject)

export const BATCH_CASES: readonly Case[] = [
  {
    name: 'a batch claims, runs and commits together',
    unless: unable,
    async test(subject) {
      const batch = await start(subject, 5)
      assert.deepEqual([...batch.won.keys()].sort(), batch.claims.map(({ id }) => id).sort())
      const effects = await batch.session.effects(batch.keys.map((key) => batch.statement(key)))
      assert.equal(effects.kind, 'done')
      assert.equal(await batch.session.complete(batch.items()), 'committed')
      for (const [i, key] of batch.keys.entries()) {
        assert.equal(await subject.effects(key), 1)
        assert.equal((await subject.store.read({ id: batch.claims[i]!.id })).answer?.status, 200)
      }
    },
  },
  {
    name: 'a batch wins every key but the completed ones',
    unless: unable,
    async test(subject) {
      const key = newKey()
      await commitOne(subject, key, claimOf(key))
      const batch = await start(subject, 2, [key])
      assert.equal(batch.won.size, 2)
      assert.equal(batch.won.has(claimOf(key).id), false)
      await batch.session.rollback()
      assert.equal(
        (await subject.store.read({ id: batch.claims[0]!.id })).record?.state ?? null,
        batch.claims[0]!.id === claimOf(key).id ? 'completed' : null,
      )
    },
  },
  {
    name: 'a batch does not wait for a key that another transaction holds',
    unless: (subject) => oneWriter(subject) ?? unable(subject),
    async test(subject) {
      const key = newKey()
      const { session } = await win(subject.store, claimOf(key))
      const startedAt = performance.now()
      const batch = await start(subject, 3, [key])
      assert.ok(performance.now() - startedAt < 2_000, 'the batch waited')
      assert.deepEqual([batch.won.size, batch.won.has(claimOf(key).id)], [3, false])
      await batch.session.rollback()
      await session.rollback()
    },
  },
  {
    name: 'a failed statement rolls the batch back, and its index is reported',
    unless: (subject) => unable(subject) ?? lacks('poison')(subject),
    async test(subject) {
      const batch = await start(subject, 4)
      const statements = batch.keys.map((key, i) => (i === 2 ? subject.poison!() : batch.statement(key)))
      const effects = await batch.session.effects(statements)
      assert.equal(effects.kind, 'failed')
      assert.equal(effects.index, 2)
      await batch.session.rollback()
      for (const [i, key] of batch.keys.entries()) {
        assert.equal(await subject.effects(key), 0)
        assert.equal((await subject.store.read({ id: batch.claims[i]!.id })).record, null)
      }
    },
  },
  {
    name: 'a statement of a batched request also runs alone, in the transaction of its claim',
    unless: unable,
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      const lost = await win(subject.store, claim)
      await lost.session.execute(subject.statement!(key))
      await lost.session.rollback()
      assert.equal(await subject.effects(key), 0)
      const { session, claimed } = await win(subject.store, claim)
      await session.execute(subject.statement!(key))
      assert.equal(await session.complete(completing(claim, claimed, '1')), 'committed')
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'a batch renews a forgotten record always, and an expired one if it may',
    unless: unable,
    async test(subject) {
      for (const rerun of [false, true]) {
        const [expired, forgotten] = [newKey(), newKey()]
        const first = await commitOne(subject, expired, claimOf(expired, 1, { replayForMs: 10 }))
        await commitOne(subject, forgotten, claimOf(forgotten, 1, { replayForMs: 10, goneForMs: 10 }))
        await pass(60)
        const batch = await start(subject, 0, [expired, forgotten], { rerun })
        assert.equal(batch.won.has(claimOf(forgotten).id), true)
        assert.equal(batch.won.has(claimOf(expired).id), rerun)
        if (rerun) assert.ok(isLater(batch.won.get(claimOf(expired).id)!.token, first.token))
        if (rerun) {
          assert.equal(await batch.session.complete(batch.items()), 'committed')
          for (const { id } of batch.claims) assertLives((await subject.store.read({ id })).record)
        } else await batch.session.rollback()
      }
    },
  },
]

interface Started {
  readonly keys: readonly string[]
  readonly claims: readonly Claim[]
  readonly session: Awaited<ReturnType<Batches['open']>>['session']
  readonly won: Awaited<ReturnType<Batches['open']>>['won']
  statement(key: string): UserStatement
  items(): Parameters<Started['session']['complete']>[0]
}

async function start(
  subject: SqlSubject,
  fresh: number,
  more: readonly string[] = [],
  { rerun = false, ...times }: Times & { rerun?: boolean } = {},
): Promise<Started> {
  const all = [...Array.from({ length: fresh }, newKey), ...more].map((key) => ({ key, claim: claimOf(key, 1, times) }))
  all.sort((a, b) => (a.claim.id < b.claim.id ? -1 : 1))
  const claims = all.map(({ claim }) => claim)
  assert.ok((await subject.store.batches.limit()) >= 1)
  const { session, won } = await subject.store.batches.open({ claims, deadlineMs: DEADLINE_MS, rerun })
  return {
    keys: all.map(({ key }) => key),
    claims,
    session,
    won,
    statement: (key) => subject.statement!(key),
    items: () => claims.flatMap((claim) => ({ claim, claimed: won.get(claim.id)!, answer: answerOf('1'), events: [] })),
  }
}
