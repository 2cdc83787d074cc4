import { strict as assert } from 'node:assert'
import { isOnceError } from '../../errors.ts'
import { claimOf, commitOne, completing, look, newKey, pass, rejectsWith, win } from './make.ts'
import { lacks } from './subject.ts'
import type { Case } from './subject.ts'

/** The server may enforce a deadline a little later than asked. */
const DEADLINE_SLACK_MS = 1_500

export const TRANSACTION_CASES: readonly Case[] = [
  {
    name: 'a transaction with a failed statement is not committed, even if the handler ignored the error',
    unless: lacks('fail'),
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      const { session, claimed } = await win(subject.store, claim)
      await subject.effect(session.tx, key)
      await subject.fail?.(session.tx)
      const ending = await session.complete(completing(claim, claimed, '1')).catch((error: unknown) => error)
      assert.ok(ending === 'rolledBack' || isOnceError(ending), 'a failed transaction was taken for committed')
      assert.equal(await subject.effects(key), 0)
      assert.equal((await subject.store.read({ id: claim.id })).record, null)
    },
  },
  {
    name: 'a revoked handle runs no statement',
    async test(subject) {
      const key = newKey()
      const claim = claimOf(key)
      const { session, claimed } = await win(subject.store, claim)
      const { tx, revoke } = session.revocable()
      await subject.effect(tx, key)
      revoke()
      await rejectsWith(subject.effect(tx, key), 'ONCE_TX_CLOSED')
      assert.equal(await session.complete(completing(claim, claimed, '1')), 'committed')
      await rejectsWith(subject.effect(tx, key), 'ONCE_TX_CLOSED')
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'a rollback to a savepoint undoes the later statements, and nothing else',
    async test(subject) {
      const { store } = subject
      const [key, lost] = [newKey(), newKey()]
      const claim = claimOf(key)
      const { session, claimed } = await win(store, claim)
      await subject.effect(session.tx, key)
      const savepoint = await session.savepoint()
      await subject.effect(session.tx, lost)
      const inner = await session.claim(claimOf(lost))
      assert.equal(inner.view.inserted, true)
      await savepoint.rollback()
      const kept = await session.savepoint()
      await subject.effect(session.tx, key)
      await kept.release()
      assert.equal(await session.complete(completing(claim, claimed, '1')), 'committed')
      assert.deepEqual([await subject.effects(key), await subject.effects(lost)], [2, 0])
      assert.equal((await look(store, claimOf(lost))).inserted, true, 'the key stayed claimed')
    },
  },
  {
    name: 'a nested record commits or rolls back with its outer transaction',
    async test(subject) {
      const { store } = subject
      for (const commits of [false, true]) {
        const [outer, inner] = [claimOf(newKey()), claimOf(newKey())]
        const { session, claimed } = await win(store, outer)
        const nested = await session.claim(inner)
        assert.ok(nested.claimed)
        await session.completeInside(completing(inner, nested.claimed, '"inner"'))
        if (commits) assert.equal(await session.complete(completing(outer, claimed, '"outer"')), 'committed')
        else await session.rollback()
        const records = await Promise.all([outer, inner].map(({ id }) => store.read({ id })))
        assert.deepEqual(
          records.map(({ record }) => record?.state ?? null),
          commits ? ['completed', 'completed'] : [null, null],
        )
      }
    },
  },
  {
    name: 'join claims a key in the user’s own transaction',
    unless: lacks('transaction'),
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      const stopped = new Error('the user changed their mind')
      const work = async (tx: unknown, stop: boolean): Promise<void> => {
        const session = await store.join(tx)
        const { claimed } = await session.claim(claim)
        assert.ok(claimed)
        await subject.effect(session.tx, key)
        await session.completeInside(completing(claim, claimed, '1'))
        if (stop) throw stopped
      }
      await assert.rejects(
        subject.transaction!((tx) => work(tx, true)),
        (error) => error === stopped || String(error).includes(stopped.message),
      )
      assert.equal((await store.read({ id: claim.id })).record, null)
      await subject.transaction!((tx) => work(tx, false))
      assert.equal((await store.read({ id: claim.id })).record?.state, 'completed')
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'join needs an open transaction',
    unless: lacks('transaction'),
    async test(subject) {
      let ended: unknown
      await subject.transaction!(async (tx) => {
        ended = tx
      })
      await rejectsWith(subject.store.join(ended), 'ONCE_TX_REQUIRED', 'ONCE_TX_CLOSED')
    },
  },
  {
    name: 'the server ends a transaction at its deadline, and frees its key',
    unless: ({ store }) => (store.features.serverDeadline ? null : 'no deadline on the server'),
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      const { session, claimed } = await win(store, claim, 50)
      await subject.effect(session.tx, key)
      await pass(50 + DEADLINE_SLACK_MS)
      assert.equal((await look(store, claim)).inserted, true, 'the key is still held')
      await rejectsWith(
        session.complete(completing(claim, claimed, '1')),
        'ONCE_DEADLINE',
        'ONCE_COMMIT_UNKNOWN',
        'ONCE_STORE_UNAVAILABLE',
      )
      assert.equal(await subject.effects(key), 0)
      await session.rollback()
      await commitOne(subject, key, claim)
      assert.equal(await subject.effects(key), 1)
    },
  },
]
