import { strict as assert } from 'node:assert'
import { answerOf, claimOf, finishOne, isLater, leaseOf, newKey, pass, textOf } from './make.ts'
import type { Case } from './subject.ts'

/** Cases about the stored answer of an operation that ran without a transaction. */
export const ANSWER_CASES: readonly Case[] = [
  {
    name: 'the answer of a leased operation completes it, and is returned byte for byte',
    async test({ store }) {
      const claim = claimOf(newKey())
      const answer = { ...answerOf('', 201), body: Uint8Array.from({ length: 256 }, (_, i) => i) }
      assert.deepEqual(await store.read({ id: claim.id }), { record: null, answer: null })
      const claimed = await finishOne(store, claim, answer)
      assert.deepEqual([claimed.attempt, claimed.life], [1, claimed.token])
      const read = await store.read({ id: claim.id })
      assert.deepEqual([read.record?.state, read.record?.token], ['completed', claimed.token])
      assert.ok(read.record && read.record.forgetInMs > read.record.expiresInMs && read.record.expiresInMs > 0)
      assert.deepEqual([read.answer?.status, read.answer?.headers, read.answer?.kept], [201, answer.headers, true])
      assert.deepEqual([...(read.answer?.body ?? [])], [...answer.body])
    },
  },
  {
    name: 'an answer that is not kept still completes its record',
    async test({ store }) {
      const claim = claimOf(newKey())
      await finishOne(store, claim, { status: 204, headers: [], body: null, kept: false })
      const { record, answer } = await store.read({ id: claim.id })
      assert.deepEqual([record?.state, answer?.status, answer?.body, answer?.kept], ['completed', 204, null, false])
    },
  },
  {
    name: 'a claim of an answered key returns its record and fingerprint, whatever the request',
    async test({ store }) {
      const key = newKey()
      const claim = claimOf(key)
      await finishOne(store, claim)
      for (const input of [1, 'other']) {
        const { view, claimed } = await store.leases.claim(leaseOf(claimOf(key, input)))
        assert.equal(claimed, null)
        const record = view.record ?? (await store.read({ id: claim.id })).record
        assert.deepEqual([view.inserted, record?.state, record?.fingerprint], [false, 'completed', claim.fingerprint])
      }
      assert.equal(textOf((await store.read({ id: claim.id })).answer), '{"n":1}')
    },
  },
  {
    name: 'a record outlives its answer until it is forgotten, and its token is never used again',
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 60_000 })
      const first = await finishOne(store, claim)
      await pass(40)
      const { record } = await store.read({ id: claim.id })
      assert.ok(record && record.expiresInMs <= 0 && record.forgetInMs > 0)
      const [a, b] = await Promise.all([1, 2].map(() => store.leases.takeOver({ ...leaseOf(claim), seen: record })))
      const taken = a ?? b
      assert.ok(taken && !(a && b) && isLater(taken.token, first.token))
    },
  },
]
