import { strict as assert } from 'node:assert'
import {
  answerOf,
  assertLives,
  claimOf,
  commitOne,
  completing,
  DEADLINE_MS,
  isLater,
  look,
  newKey,
  pass,
  textOf,
  win,
} from './make.ts'
import { lacks, oneWriter } from './subject.ts'
import type { Case } from './subject.ts'

export const CLAIM_CASES: readonly Case[] = [
  {
    name: 'a fresh claim commits its effect with its answer',
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      assert.equal((await store.read({ id: claim.id })).record, null)
      const claimed = await commitOne(subject, key, claim, '{"z":1,"a":2}')
      assert.equal(claimed.attempt, 1)
      assert.equal(claimed.life, claimed.token)
      const { record, answer } = await store.read({ id: claim.id })
      assert.equal(record?.state, 'completed')
      assert.equal(record.token, claimed.token)
      assert.equal(record.fingerprint, claim.fingerprint)
      assert.ok(record.expiresInMs > 0 && record.forgetInMs > record.expiresInMs)
      assert.equal(textOf(answer), '{"z":1,"a":2}')
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'an answer is returned byte for byte, with its headers in order',
    async test(subject) {
      const { store } = subject
      const claim = claimOf(newKey())
      const body = Uint8Array.from({ length: 256 }, (_, i) => i)
      const { session, claimed } = await win(store, claim)
      const answer = { ...answerOf('', 201), body }
      assert.equal(await session.complete({ claim, claimed, answer, events: [], fenced: false }), 'committed')
      const stored = (await store.read({ id: claim.id })).answer
      assert.equal(stored?.status, 201)
      assert.deepEqual(stored.headers, answer.headers)
      assert.deepEqual([...(stored.body ?? [])], [...body])
      assert.equal(stored.kept, true)
    },
  },
  {
    name: 'a record without a kept answer differs from a record with an empty answer',
    async test({ store }) {
      for (const kept of [false, true]) {
        const claim = claimOf(newKey())
        const { session, claimed } = await win(store, claim)
        await session.complete({
          claim,
          claimed,
          answer: { status: 204, headers: [], body: null, kept },
          events: [],
          fenced: false,
        })
        const { record, answer } = await store.read({ id: claim.id })
        assert.equal(record?.state, 'completed')
        assert.deepEqual([answer?.status, answer?.body, answer?.kept], [204, null, kept])
      }
    },
  },
  {
    name: 'a duplicate after the commit sees the record, and no lock',
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      await commitOne(subject, key, claim)
      const view = await look(subject.store, claim)
      assert.equal(view.inserted, false)
      assert.equal(view.record?.fingerprint, claim.fingerprint)
      const other = await look(subject.store, claimOf(key, 'other'))
      assert.equal(other.inserted, false)
      assert.equal(other.record?.fingerprint, claim.fingerprint)
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'a running key tells the same request from a different one, and neither waits',
    unless: oneWriter,
    async test({ store }) {
      const key = newKey()
      const claim = claimOf(key)
      const { session } = await win(store, claim)
      const same = await look(store, claim)
      const other = await look(store, claimOf(key, 'other'))
      assert.deepEqual([same.inserted, same.sameRunning, same.otherRunning, same.record], [false, true, false, null])
      assert.deepEqual(
        [other.inserted, other.sameRunning, other.otherRunning, other.record],
        [false, false, true, null],
      )
      // The refused duplicates left no lock behind that would affect the next one.
      assert.equal((await look(store, claim)).sameRunning, true)
      await session.rollback()
      assert.equal((await look(store, claim)).inserted, true)
    },
  },
  {
    name: 'a refused duplicate sees everything that was committed before its claim',
    unless: oneWriter,
    async test(subject) {
      const { store } = subject
      for (let round = 0; round < 20; round++) {
        const key = newKey()
        const claim = claimOf(key)
        const { session, claimed } = await win(store, claim)
        await subject.effect(session.tx, key)
        const [, ...views] = await Promise.all([
          session.complete(completing(claim, claimed, '1')),
          look(store, claim),
          look(store, claimOf(key, 'other')),
          look(store, claim),
        ])
        for (const view of views) assert.equal(view.inserted, false)
        const after = await look(store, claim)
        assert.ok(after.record, 'a committed record was not seen')
        assert.equal(await subject.effects(key), 1)
      }
    },
  },
  {
    name: 'a rollback leaves nothing, and the key is free',
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      const { session } = await win(subject.store, claim)
      await subject.effect(session.tx, key)
      await session.rollback()
      assert.equal((await subject.store.read({ id: claim.id })).record, null)
      assert.equal(await subject.effects(key), 0)
      await commitOne(subject, key, claim)
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'a refusal is stored without an effect, and does not change an existing record',
    async test(subject) {
      const { store } = subject
      const claim = claimOf(newKey())
      assert.equal((await store.refuse({ claim, answer: answerOf('{"no":1}', 402) })).inserted, true)
      assert.equal((await store.refuse({ claim, answer: answerOf('{"no":2}', 402) })).inserted, false)
      const { record, answer } = await store.read({ id: claim.id })
      assert.equal(record?.state, 'completed')
      assert.deepEqual([answer?.status, textOf(answer)], [402, '{"no":1}'])
    },
  },
  {
    name: 'a refusal of a forgotten key starts a new life with its own expiry',
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const first = await commitOne(subject, key, claimOf(key, 1, { replayForMs: 10, goneForMs: 10 }))
      await pass(40)
      const claim = claimOf(key, 2)
      assert.equal((await store.refuse({ claim, answer: answerOf('{"no":1}', 402) })).inserted, true)
      const { record, answer } = await store.read({ id: claim.id })
      assert.ok(record && isLater(record.token, first.token))
      assert.deepEqual([record.state, record.fingerprint, record.attempt], ['completed', claim.fingerprint, 1])
      assert.equal(record.life, record.token)
      assertLives(record)
      assert.deepEqual([answer?.status, textOf(answer)], [402, '{"no":1}'])
    },
  },
  {
    name: 'an expired record starts a new life once, under a higher token',
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key, 1, { replayForMs: 30 })
      const anew = claimOf(key)
      const first = await commitOne(subject, key, claim)
      const live = claimOf(newKey())
      await commitOne(subject, live.id, live)
      const still = await store.begin({ claim: live, deadlineMs: DEADLINE_MS })
      assert.ok(still.view.record)
      assert.equal(await still.session.renew(live, still.view.record), null, 'a live record was renewed')
      await still.session.rollback()
      await pass(60)
      const { session, view } = await store.begin({ claim, deadlineMs: DEADLINE_MS })
      assert.ok(view.record && view.record.expiresInMs <= 0)
      const renewed = await session.renew(anew, view.record)
      assert.ok(renewed && isLater(renewed.token, first.token))
      assert.equal(renewed.life, renewed.token)
      await subject.effect(session.tx, key)
      assert.equal(await session.complete(completing(anew, renewed, '"second"')), 'committed')
      const { record, answer } = await store.read({ id: claim.id })
      assert.equal(textOf(answer), '"second"')
      assertLives(record)
      const again = await store.begin({ claim, deadlineMs: DEADLINE_MS })
      assert.equal(await again.session.renew(claim, view.record), null, 'renewed twice from one view')
      await again.session.rollback()
      assert.equal(await subject.effects(key), 2)
    },
  },
  {
    name: 'a live record without its answer is read without an answer, and stays',
    unless: lacks('dropAnswers'),
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      await commitOne(subject, key, claim)
      await subject.dropAnswers?.()
      const { record, answer } = await subject.store.read({ id: claim.id })
      assert.equal(answer, null)
      assert.equal(record?.state, 'completed')
      assert.ok(record.expiresInMs > 0)
    },
  },
]
