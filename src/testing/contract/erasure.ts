import { strict as assert } from 'node:assert'
import { fingerprintInput } from '../../key/fingerprint.ts'
import { fingerprintLockOf, identity, lockOf } from '../../key/identity.ts'
import { decide } from '../../lifecycle/decide.ts'
import { isErased, type ClaimView } from '../../lifecycle/record.ts'
import type { ErasedOperations } from '../../store/erasure.ts'
import type { Claim, Claimed } from '../../store/store.ts'
import { answerOf, claimOf, completing, DEADLINE_MS, LONG_MS, newKey, pass, win, winLease, type Times } from './make.ts'
import { oneWriter, type Case, type SqlSubject } from './subject.ts'

const ALL = { after: null, limit: 100, dryRun: false } as const

/** Claims of a scope of the case's own, because subjects may share one database. */
function scoped(): { readonly scope: string; claim(key?: string, times?: Times): Claim } {
  const scope = newKey()
  return {
    scope: identity({ namespace: 'contract', scope, key: '' }).scope,
    claim(key = newKey(), times = {}) {
      const of = identity({ namespace: 'contract', scope, key })
      const fingerprintLock = fingerprintLockOf(of.id, fingerprintInput(1))
      return { ...claimOf(key, 1, times), ...of, lock: lockOf(of.id), fingerprintLock }
    },
  }
}

async function completed({ store }: SqlSubject, claim: Claim): Promise<Claimed> {
  const { session, claimed } = await win(store, claim)
  assert.equal(await session.complete(completing(claim, claimed, 'charged')), 'committed')
  return claimed
}

/** Follows the calls to the end. */
async function eraseAll({ store }: SqlSubject, scope: string, limit = 100): Promise<Omit<ErasedOperations, 'next'>> {
  const all = { erased: 0, ids: [] as string[], busy: [] as string[] }
  let after: string | null = null
  for (let calls = 0; calls < 10_000; calls++) {
    const part: ErasedOperations = await store.erasure.operations({ ...ALL, scope, id: null, after, limit })
    assert.ok(part.erased <= limit && part.ids.length <= limit, 'a call erased more than its limit')
    all.erased += part.erased
    all.ids.push(...part.ids)
    all.busy.push(...part.busy)
    after = part.next
    if (after === null) return { ...all, ids: [...new Set(all.ids)] }
  }
  return assert.fail('the calls did not end')
}

/** A late retry gets 410 until the record is forgotten, whatever its policy. */
async function assertTombstone({ store }: SqlSubject, claim: Claim): Promise<void> {
  const { record, answer } = await store.read({ id: claim.id })
  assert.ok(record && isErased(record), 'there is no tombstone')
  assert.equal(answer, null)
  assert.equal(record.state, 'completed')
  for (const fingerprint of [claim.fingerprint, fingerprintInput('another')]) {
    const { view, claimed, session } = await store.begin({ claim: { ...claim, fingerprint }, deadlineMs: DEADLINE_MS })
    await session.rollback()
    assert.equal(claimed, null)
    for (const expired of ['gone', 'rerun'] as const) {
      const seen: ClaimView = { ...view, record: view.record ?? record, reread: true }
      assert.equal(decide(seen, { fingerprint, fingerprintVersion: 1, expired }).do, 'gone')
    }
  }
}

export const ERASURE_CASES: readonly Case[] = [
  {
    name: 'erasure: answers go, a tombstone stays, and other scopes keep theirs',
    async test(subject) {
      const [mine, other] = [scoped(), scoped()]
      const [first, second, theirs] = [mine.claim(), mine.claim(), other.claim()]
      for (const claim of [first, second, theirs]) await completed(subject, claim)
      const { erased, ids, busy } = await eraseAll(subject, mine.scope)
      assert.deepEqual([erased, ids.toSorted(), busy], [2, [first.id, second.id].toSorted(), []])
      await assertTombstone(subject, first)
      await assertTombstone(subject, second)
      assert.ok((await subject.store.read({ id: theirs.id })).answer)
    },
  },
  {
    name: 'erasure: a second run erases nothing, and names the same operations for the caches',
    async test(subject) {
      const { scope, claim } = scoped()
      const one = claim()
      await completed(subject, one)
      await eraseAll(subject, scope)
      assert.deepEqual(await eraseAll(subject, scope), { erased: 0, ids: [one.id], busy: [] })
    },
  },
  {
    name: 'erasure: one operation by its id, and only in its scope',
    async test(subject) {
      const [mine, other] = [scoped(), scoped()]
      const [one, two] = [mine.claim(), mine.claim()]
      for (const claim of [one, two]) await completed(subject, claim)
      const { erasure } = subject.store
      assert.equal((await erasure.operations({ ...ALL, scope: other.scope, id: one.id })).erased, 0)
      assert.deepEqual(await erasure.operations({ ...ALL, scope: mine.scope, id: one.id }), {
        erased: 1,
        ids: [one.id],
        busy: [],
        next: null,
      })
      await assertTombstone(subject, one)
      assert.ok((await subject.store.read({ id: two.id })).answer)
    },
  },
  {
    name: 'erasure: a scope goes in bounded parts, and every part can be run again',
    async test(subject) {
      const { scope, claim } = scoped()
      const claims = Array.from({ length: 7 }, () => claim())
      for (const of of claims) await completed(subject, of)
      const first = await subject.store.erasure.operations({ ...ALL, scope, id: null, limit: 2 })
      assert.ok(first.erased <= 2)
      const { erased, ids } = await eraseAll(subject, scope, 2)
      assert.equal(first.erased + erased, 7)
      assert.equal(ids.length, 7)
      for (const of of claims) await assertTombstone(subject, of)
    },
  },
  {
    name: 'erasure: a dry run counts and changes nothing',
    async test(subject) {
      const { scope, claim } = scoped()
      const one = claim()
      await completed(subject, one)
      for (const id of [null, one.id]) {
        const { erased, ids } = await subject.store.erasure.operations({ ...ALL, scope, id, dryRun: true, limit: 1e6 })
        assert.ok(erased <= 1 && ids.length === erased)
      }
      assert.equal((await subject.store.erasure.operations({ ...ALL, scope, id: one.id, dryRun: true })).erased, 1)
      assert.ok((await subject.store.read({ id: one.id })).answer)
    },
  },
  {
    name: 'erasure: steps, the sealed input and the label of a leased operation go',
    async test(subject) {
      const { store } = subject
      const { leases } = store
      const { scope, claim } = scoped()
      const one = claim()
      const recover = { namespace: 'contract', name: newKey(), input: '{"input":{"name":"Ann"}}' }
      const about = { namespace: 'contract', route: 'POST /charges', label: 'Ann' }
      const { claimed } = await leases.claim({ claim: one, leaseMs: 20_000, recover, about })
      assert.ok(claimed)
      const { token, life } = claimed
      assert.ok(await leases.finishStep({ id: one.id, token, life, name: 'pay', result: '"for Ann"' }))
      assert.ok(await leases.finish({ id: one.id, token, claim: one, answer: answerOf('Ann') }))
      assert.equal((await eraseAll(subject, scope)).erased, 1)
      await assertTombstone(subject, one)
      assert.deepEqual(await leases.steps({ id: one.id, life }), [])
      const shown = await leases.show({ id: one.id })
      assert.deepEqual([shown?.operation.label, shown?.input], [null, null])
      assert.equal(await leases.finish({ id: one.id, token, claim: one, answer: answerOf('Ann') }), false)
    },
  },
  {
    name: 'erasure: an operation that is running, abandoned or unknown stays as it is',
    async test(subject) {
      const { store } = subject
      const { scope, claim } = scoped()
      const [running, abandoned, unknown] = [claim(), claim(), claim()]
      await winLease(store, running)
      const left = await winLease(store, abandoned)
      assert.ok(await store.leases.finishStep({ id: abandoned.id, ...left, name: 'pay', result: '1' }))
      assert.ok(await store.leases.release({ id: abandoned.id, token: left.token }))
      const lost = await winLease(store, unknown)
      assert.ok(await store.leases.suspend({ id: unknown.id, token: lost.token }))
      assert.deepEqual(await eraseAll(subject, scope), { erased: 0, ids: [], busy: [] })
      for (const { id } of [running, abandoned, unknown]) {
        const { erased, ids } = await store.erasure.operations({ ...ALL, scope, id })
        assert.deepEqual([erased, ids], [0, []])
      }
      assert.equal((await store.leases.steps({ id: abandoned.id, life: left.life })).length, 1)
      const { record } = await store.read({ id: running.id })
      assert.deepEqual([record?.state, record?.fingerprint], ['inProgress', running.fingerprint])
    },
  },
  {
    name: 'erasure: an expired record is renewed neither by an attempt that read it before, nor by a batch',
    async test(subject) {
      const { store } = subject
      const { scope, claim } = scoped()
      const one = claim(undefined, { replayForMs: 1, goneForMs: LONG_MS })
      await completed(subject, one)
      await pass(20)
      const { record: seen } = await store.read({ id: one.id })
      assert.ok(seen && seen.expiresInMs <= 0)
      assert.equal((await eraseAll(subject, scope)).erased, 1)
      assert.equal(await store.leases.takeOver({ claim: one, leaseMs: 20_000, recover: null, seen }), null)
      const session = await store.open({ deadlineMs: DEADLINE_MS })
      assert.equal(await session.renew(one, seen), null)
      await session.rollback()
      if (store.batches) {
        const batch = await store.batches.open({ claims: [one], deadlineMs: DEADLINE_MS, rerun: true })
        await batch.session.rollback()
        assert.equal(batch.won.size, 0)
      }
      await assertTombstone(subject, one)
    },
  },
  {
    name: 'erasure: after `goneFor` the key of a tombstone is new',
    async test(subject) {
      const { store } = subject
      const { scope, claim } = scoped()
      const one = claim(undefined, { replayForMs: 1, goneForMs: 1 })
      await completed(subject, one)
      await eraseAll(subject, scope)
      await pass(20)
      const { record: seen } = await store.read({ id: one.id })
      assert.ok(seen && seen.forgetInMs <= 0)
      const again = claim(newKey())
      const session = await store.open({ deadlineMs: DEADLINE_MS })
      assert.ok(await session.renew({ ...again, id: one.id }, seen))
      await session.rollback()
    },
  },
  {
    name: 'erasure: an operation whose transaction is open is not erased, and its transaction is named',
    unless: oneWriter,
    async test(subject) {
      const { store } = subject
      const { scope, claim } = scoped()
      const [one, over] = [claim(), claim(undefined, { replayForMs: 1, goneForMs: LONG_MS })]
      await completed(subject, over)
      await pass(20)
      const before = new Set(await store.erasure.writers?.())
      const { session, claimed } = await win(store, one)
      const { record: seen } = await store.read({ id: over.id })
      assert.ok(seen)
      const renewing = await store.open({ deadlineMs: DEADLINE_MS })
      const renewed = await renewing.renew(claim(), { ...seen }) // another key: not this record
      assert.equal(renewed, null)
      assert.ok(await renewing.renew({ ...over, replayForMs: LONG_MS }, seen))
      const named = (await store.erasure.writers?.())?.filter((writer) => !before.has(writer))
      assert.ok(named && named.length >= 2, 'the open transactions are not named')
      assert.deepEqual(await eraseAll(subject, scope), { erased: 0, ids: [], busy: [over.id] })
      assert.equal(await session.complete(completing(one, claimed, 'charged')), 'committed')
      await renewing.rollback()
      const after = new Set(await store.erasure.writers?.())
      assert.ok(named.every((writer) => !after.has(writer)))
      assert.equal((await eraseAll(subject, scope)).erased, 2)
      await assertTombstone(subject, one)
    },
  },
]
