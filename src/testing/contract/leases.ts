import { strict as assert } from 'node:assert'
import type { StoredRecord } from '../../lifecycle/record.ts'
import type { Claim, Claimed, LeaseParams, SqlStore } from '../../store/store.ts'
import {
  answerOf,
  assertLives,
  claimOf,
  completing,
  DEADLINE_MS,
  finishOne,
  isLater,
  LEASE_MS,
  leaseOf,
  newKey,
  pass,
  rejectsWith,
  textOf,
  winLease,
} from './make.ts'
import type { Case } from './subject.ts'

export const LEASE_CASES: readonly Case[] = [
  {
    name: 'a lease is visible at once, with its remaining time',
    async test({ store }) {
      const key = newKey()
      const claim = claimOf(key)
      const claimed = await winLease(store, claim)
      const { view } = await store.leases.claim(leaseOf(claim))
      assert.equal(view.inserted, false)
      const record = view.record ?? (await store.read({ id: claim.id })).record
      assert.equal(record?.state, 'inProgress')
      assert.equal(record.token, claimed.token)
      assert.ok((record.leaseLeftMs ?? 0) > 0 && (record.leaseLeftMs ?? 0) <= LEASE_MS)
    },
  },
  {
    name: 'a lapsed lease is taken over once, with a higher token',
    async test({ store }) {
      const claim = claimOf(newKey())
      const first = await winLease(store, claim, 500)
      const seen = await recordOf(store, claim)
      assert.equal(await store.leases.takeOver({ ...leaseOf(claim), seen }), null, 'taken over before it lapsed')
      await pass(530)
      const second = await store.leases.takeOver({ ...leaseOf(claim), seen })
      assert.ok(second && isLater(second.token, first.token))
      assert.deepEqual([second.attempt, second.life], [2, first.life])
      assert.equal(await store.leases.takeOver({ ...leaseOf(claim), seen }), null, 'taken over twice from one view')
    },
  },
  {
    name: 'an operation that was completed meanwhile is not taken over',
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 40 })
      const { token } = await winLease(store, claim, 10)
      const seen = await recordOf(store, claim)
      assert.equal(await store.leases.finish({ id: claim.id, token, claim, answer: answerOf('"no"', 402) }), true)
      await pass(80)
      assert.equal(await store.leases.takeOver({ ...leaseOf(claim), seen }), null, 'run again before it is forgotten')
    },
  },
  {
    name: 'one of two concurrent takeovers wins',
    async test({ store }) {
      const claim = claimOf(newKey())
      await winLease(store, claim, 10)
      await pass(30)
      const seen = await recordOf(store, claim)
      const taken = await Promise.all(
        Array.from({ length: 4 }, () => store.leases.takeOver({ ...leaseOf(claim), seen })),
      )
      assert.equal(taken.filter(Boolean).length, 1)
    },
  },
  {
    name: 'an attempt that lost its lease writes nothing',
    async test({ store }) {
      const { leases } = store
      const claim = claimOf(newKey())
      const { old, now } = await takenOver(store, claim)
      const held = { id: claim.id, token: old.token }
      const step = { ...held, life: old.life, name: 'charge' }
      assert.deepEqual(await leases.heartbeat({ leases: [held], leaseMs: LEASE_MS }), [])
      assert.equal(await leases.startStep(step), false)
      assert.equal(await leases.finishStep({ ...step, result: '1' }), false)
      assert.equal(await leases.release(held), false)
      assert.equal(await leases.suspend(held), false)
      assert.equal(await leases.finish({ ...held, claim, answer: answerOf('no', 402) }), false)
      assert.deepEqual(await leases.steps({ id: claim.id, life: old.life }), [])
      assert.equal((await recordOf(store, claim)).token, now.token)
    },
  },
  {
    name: 'an attempt that lost its lease commits nothing',
    needs: ['transactions'],
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      const { old, now } = await takenOver(store, claim)
      const step = { id: claim.id, token: old.token, life: old.life, name: 'charge' }
      const session = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(session.tx, key)
      await rejectsWith(session.complete(completing(claim, old, '"zombie"', true)), 'ONCE_LEASE_LOST')
      await session.rollback()
      const beside = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(beside.tx, key)
      await rejectsWith(beside.completeStep({ ...step, result: '1' }), 'ONCE_LEASE_LOST')
      await beside.rollback()
      assert.equal(await subject.effects(key), 0)
      assert.deepEqual(await store.leases.steps({ id: claim.id, life: old.life }), [])
      assert.equal((await recordOf(store, claim)).token, now.token)
    },
  },
  {
    name: 'the holder commits its effect with its answer, even after its lease has lapsed',
    needs: ['transactions'],
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      const claimed = await winLease(store, claim, 10)
      await pass(30)
      const session = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(session.tx, key)
      assert.equal(await session.complete(completing(claim, claimed, '"late"', true)), 'committed')
      const { record, answer } = await store.read({ id: claim.id })
      assert.equal(record?.state, 'completed')
      assert.equal(textOf(answer), '"late"')
      assert.equal(await subject.effects(key), 1)
      const again = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(again.tx, key)
      await rejectsWith(again.complete(completing(claim, claimed, '"twice"', true)), 'ONCE_LEASE_LOST')
      await again.rollback()
      assert.equal(await subject.effects(key), 1)
    },
  },
  {
    name: 'a heartbeat renews the leases of its process, and returns their ids',
    async test({ store }) {
      const claims = [claimOf(newKey()), claimOf(newKey())]
      const held = []
      for (const claim of claims) held.push({ id: claim.id, token: (await winLease(store, claim, 200)).token })
      held.push({ id: claimOf(newKey()).id, token: '1' })
      const ours = await store.leases.heartbeat({ leases: held, leaseMs: LEASE_MS })
      assert.deepEqual([...ours].sort(), claims.map(({ id }) => id).sort())
      for (const claim of claims) assert.ok(((await recordOf(store, claim)).leaseLeftMs ?? 0) > 1_000)
      assert.deepEqual(await store.leases.heartbeat({ leases: [], leaseMs: LEASE_MS }), [])
    },
  },
  {
    name: 'after a release the next attempt begins at once',
    async test({ store }) {
      const claim = claimOf(newKey())
      const claimed = await winLease(store, claim)
      assert.equal(await store.leases.release({ id: claim.id, token: claimed.token }), true)
      const seen = await recordOf(store, claim)
      assert.ok((seen.leaseLeftMs ?? 1) <= 0)
      assert.equal((await store.leases.takeOver({ ...leaseOf(claim), seen }))?.attempt, 2)
    },
  },
  {
    name: 'a settled operation keeps its retention if that is longer',
    async test({ store }) {
      const key = newKey()
      const claim = claimOf(key, 1, { replayForMs: 7_200_000 })
      const { token } = await winLease(store, claim)
      assert.equal(await store.leases.suspend({ id: claim.id, token }), true)
      const shorter = claimOf(key, 1, { replayForMs: 60_000 })
      assert.equal(await store.leases.settle({ claim: shorter, verdict: { kind: 'rerun', step: 'call' } }), true)
      const { state, expiresInMs } = await recordOf(store, claim)
      assert.equal(state, 'inProgress')
      assert.ok(expiresInMs > 3_600_000)
    },
  },
  {
    name: 'a refusal by the holder is final',
    async test({ store }) {
      const claim = claimOf(newKey())
      const { token } = await winLease(store, claim)
      assert.equal(await store.leases.finish({ id: claim.id, token, claim, answer: answerOf('"no"', 402) }), true)
      const { record, answer } = await store.read({ id: claim.id })
      assert.deepEqual([record?.state, answer?.status, textOf(answer)], ['completed', 402, '"no"'])
      assert.equal(await store.leases.release({ id: claim.id, token }), false)
    },
  },
  {
    name: 'the retention of an answer begins at its completion, and not at its claim',
    needs: ['transactions'],
    async test({ store }) {
      const [completed, refused] = [newKey(), newKey()]
      for (const key of [completed, refused]) {
        const claimed = await winLease(store, claimOf(key, 1, { replayForMs: 9_000, goneForMs: 0 }))
        const { token } = claimed
        const claim = claimOf(key)
        if (key === refused) {
          assert.equal(await store.leases.finish({ id: claim.id, token, claim, answer: answerOf('"no"', 402) }), true)
        } else {
          const session = await store.open({ deadlineMs: DEADLINE_MS })
          assert.equal(await session.complete(completing(claim, claimed, '"yes"', true)), 'committed')
        }
        const { record, answer } = await store.read({ id: claim.id })
        assertLives(record)
        assert.equal(textOf(answer), key === refused ? '"no"' : '"yes"')
      }
    },
  },
  {
    name: 'an expired record is leased with a new life',
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 20 })
      const first = await finishOne(store, claim)
      await pass(50)
      const taken = await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.ok(taken && isLater(taken.token, first.token))
      assert.deepEqual([taken.life, taken.attempt], [taken.token, 1])
      assert.equal((await recordOf(store, claim)).state, 'inProgress')
    },
  },
  {
    name: 'abandoned operations are found with their sealed input',
    needs: ['search'],
    async test({ store }) {
      const claim = claimOf(newKey())
      const namespace = newKey()
      await store.leases.claim({ claim, leaseMs: 10, recover: { namespace, name: 'pay', input: '{"n":1}' } })
      await winLease(store, claimOf(newKey()), 10)
      await pass(30)
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace }), [
        { id: claim.id, name: 'pay', input: '{"n":1}' },
      ])
      assert.equal((await store.leases.lapsed({ limit: 10, namespace, names: ['ship', 'pay'] })).length, 1)
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace, names: ['ship'] }), [])
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace, names: [] }), [])
      await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace }), [])
    },
  },
  {
    name: 'a second life has its own sealed input',
    needs: ['search'],
    async test({ store }) {
      const [key, namespace] = [newKey(), newKey()]
      const claim = claimOf(key, 1, { replayForMs: 20 })
      await finishOne(store, claim)
      await pass(50)
      const again = claimOf(key, 2)
      const recover = { namespace, name: 'pay', input: '{"n":2}' }
      const seen = await recordOf(store, claim)
      assert.ok(await store.leases.takeOver({ claim: again, leaseMs: 10, recover, seen }))
      await pass(30)
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace }), [
        { id: claim.id, name: 'pay', input: '{"n":2}' },
      ])
    },
  },
  {
    name: 'a takeover with an input replaces the sealed input, and one without keeps it',
    needs: ['search'],
    async test({ store }) {
      const claim = claimOf(newKey())
      const namespace = newKey()
      const sealed = (input: string): LeaseParams => ({
        claim,
        leaseMs: 10,
        recover: { namespace, name: 'pay', input },
      })
      const next = async (params: LeaseParams): Promise<string[]> => {
        await pass(30)
        assert.ok(await store.leases.takeOver({ ...params, seen: await recordOf(store, claim) }))
        await pass(30)
        return (await store.leases.lapsed({ limit: 10, namespace })).map(({ input }) => input)
      }
      await store.leases.claim(sealed('1'))
      assert.deepEqual(await next(leaseOf(claim, 10)), ['1'])
      assert.deepEqual(await next(sealed('2')), ['2'])
    },
  },
  {
    name: 'an atomic claim that takes over leaves no sealed input behind',
    needs: ['transactions', 'search'],
    async test({ store }) {
      const [key, namespace] = [newKey(), newKey()]
      const claim = claimOf(key)
      await store.leases.claim({ claim, leaseMs: 10, recover: { namespace, name: 'pay', input: '{"card":"4242"}' } })
      await pass(30)
      const { session } = await store.begin({ claim, deadlineMs: DEADLINE_MS })
      const short = claimOf(key, 1, { replayForMs: 20 })
      const claimed = await session.renew(short, await recordOf(store, claim))
      assert.ok(claimed)
      assert.equal(await session.complete(completing(short, claimed, '"done"')), 'committed')
      await pass(50)
      // The next life of the record has no sealed input, and must not find the one of the earlier life.
      assert.ok(await store.leases.takeOver({ ...leaseOf(claim, 10), seen: await recordOf(store, claim) }))
      await pass(30)
      assert.deepEqual(await store.leases.lapsed({ limit: 10, namespace }), [])
    },
  },
]

export async function recordOf(store: SqlStore<unknown>, claim: Claim): Promise<StoredRecord> {
  const { record } = await store.read({ id: claim.id })
  assert.ok(record, 'there is no record')
  return record
}

/** Creates a lease that lapsed and that another process took over. */
export async function takenOver(store: SqlStore<unknown>, claim: Claim): Promise<{ old: Claimed; now: Claimed }> {
  const old = await winLease(store, claim, 10)
  await pass(30)
  const now = await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
  assert.ok(now)
  return { old, now }
}
