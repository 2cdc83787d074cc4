import { strict as assert } from 'node:assert'
import { answerOf, claimOf, DEADLINE_MS, leaseOf, newKey, pass, textOf, winLease } from './make.ts'
import { recordOf } from './leases.ts'
import type { StepFilter } from '../../store/store.ts'
import type { Case } from './subject.ts'

export const STEP_CASES: readonly Case[] = [
  {
    name: 'steps are recorded for each life: first started, then done',
    async test({ store }) {
      const claim = claimOf(newKey())
      const { token, life } = await winLease(store, claim)
      const of = { id: claim.id, token, life }
      assert.equal(await store.leases.startStep({ ...of, name: 'charge' }), true)
      assert.deepEqual(await store.leases.steps({ id: claim.id, life }), [
        { name: 'charge', state: 'started', result: null },
      ])
      assert.equal(await store.leases.finishStep({ ...of, name: 'charge', result: '{"ok":true}' }), true)
      assert.equal(await store.leases.finishStep({ ...of, name: 'mail', result: 'null' }), true)
      const steps = [...(await store.leases.steps({ id: claim.id, life }))].sort((a, b) => (a.name < b.name ? -1 : 1))
      assert.deepEqual(steps, [
        { name: 'charge', state: 'done', result: '{"ok":true}' },
        { name: 'mail', state: 'done', result: 'null' },
      ])
      assert.deepEqual(await store.leases.steps({ id: claim.id, life: '1' }), [])
    },
  },
  {
    name: 'a start that comes twice, the second time late, leaves the recorded result',
    async test({ store }) {
      const claim = claimOf(newKey())
      const { token, life } = await winLease(store, claim)
      const of = { id: claim.id, token, life, name: 'charge' }
      assert.equal(await store.leases.startStep(of), true)
      assert.equal(await store.leases.startStep(of), true)
      assert.equal(await store.leases.finishStep({ ...of, result: '"paid"' }), true)
      assert.equal(await store.leases.startStep(of), true)
      assert.deepEqual(await store.leases.steps({ id: claim.id, life }), [
        { name: 'charge', state: 'done', result: '"paid"' },
      ])
    },
  },
  {
    name: 'recorded steps are found by name and time, in the order of their operations and lives',
    needs: ['search'],
    async test({ store }) {
      const { leases } = store
      const name = newKey()
      const namespace = newKey()
      const undo = `eo:undo:${name}`
      const lives: { id: string; life: string }[] = []
      for (let n = 0; n < 5; n++) {
        const claim = claimOf(newKey())
        const about = { namespace, route: 'POST /orders', label: `order ${n}` }
        const { claimed } = await leases.claim({ ...leaseOf(claim), about })
        assert.ok(claimed)
        const of = { id: claim.id, token: claimed.token, life: claimed.life }
        await leases.startStep({ ...of, name })
        await leases.finishStep({ ...of, name: 'another', result: '1' })
        if (n > 0) await leases.finishStep({ ...of, name, result: `{"n":"${'x'.repeat(100)}"}` })
        if (n === 1) await leases.finishStep({ ...of, name: undo, result: '"back"' })
        lives.push({ id: claim.id, life: claimed.life })
      }
      const start = { id: '00000000-0000-0000-0000-000000000000', life: '-1' }
      const all: StepFilter = {
        namespace,
        name,
        undo,
        since: '0',
        until: '9000000000000000',
        after: start,
        limit: 10,
        bytes: 1e6,
      }
      const find = async (more: Partial<StepFilter>): Promise<string[]> =>
        (await leases.findSteps({ ...all, ...more })).map(({ id }) => id)
      const ids = lives.map(({ id }) => id).sort()
      const found = await leases.findSteps(all)
      assert.deepEqual(await find({}), ids)
      const of = (n: number): unknown => found.find(({ id }) => id === lives[n]?.id)
      const same = { route: 'POST /orders', undone: null }
      assert.deepEqual(of(0), { ...lives[0], ...same, label: 'order 0', state: 'started', result: null })
      const result = `{"n":"${'x'.repeat(100)}"}`
      assert.deepEqual(of(1), { ...lives[1], ...same, label: 'order 1', state: 'done', result, undone: '"back"' })
      assert.deepEqual(of(2), { ...lives[2], ...same, label: 'order 2', state: 'done', result })
      assert.deepEqual(await find({ limit: 2 }), ids.slice(0, 2))
      assert.deepEqual(await find({ after: found[1]! }), ids.slice(2))
      assert.ok((await find({ bytes: 150 })).length < 5)
      assert.equal((await find({ bytes: 1 })).length >= 1, true)
      assert.deepEqual([await find({ namespace: 'none' }), await find({ name: 'none' })], [[], []])
      assert.deepEqual(await find({ namespace: null }), ids)
      // Two operations may begin in one instant, and then have the same life.
      const last = Number(lives[4]?.life)
      const begun = (when: (life: number) => boolean): string[] =>
        lives.flatMap(({ id, life }) => (when(Number(life)) ? [id] : [])).sort()
      assert.deepEqual(
        await find({ since: lives[0]?.life ?? '', until: `${last}` }),
        begun((life) => life < last),
      )
      assert.deepEqual(
        await find({ since: `${last}` }),
        begun((life) => life >= last),
      )
    },
  },
  {
    name: 'database work commits with its step',
    needs: ['transactions'],
    async test(subject) {
      const { store } = subject
      const key = newKey()
      const claim = claimOf(key)
      const { token, life } = await winLease(store, claim)
      const step = { id: claim.id, token, life, name: 'book', result: '1' }
      // An earlier attempt may have begun it as a call.
      await store.leases.startStep(step)
      const dropped = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(dropped.tx, key)
      await dropped.rollback()
      const session = await store.open({ deadlineMs: DEADLINE_MS })
      await subject.effect(session.tx, key)
      assert.equal(await session.completeStep(step), 'committed')
      assert.equal(await subject.effects(key), 1)
      assert.deepEqual(await store.leases.steps({ id: claim.id, life }), [{ name: 'book', state: 'done', result: '1' }])
      assert.equal((await recordOf(store, claim)).state, 'inProgress')
    },
  },
  {
    name: 'an unknown operation is listed, and waits for an operator',
    needs: ['search'],
    async test({ store }) {
      const { leases } = store
      const claim = claimOf(newKey())
      const { token, life } = await winLease(store, claim)
      const held = { id: claim.id, token }
      assert.equal(
        await leases.settle({ claim, verdict: { kind: 'rerun', step: 'charge' } }),
        false,
        'settled what is not unknown',
      )
      await leases.startStep({ ...held, life, name: 'charge' })
      assert.equal(await leases.suspend(held), true)
      assert.equal((await recordOf(store, claim)).state, 'unknown')
      const other = claimOf(newKey())
      await leases.suspend({ id: other.id, token: (await winLease(store, other)).token })
      assert.equal((await leases.unknown({ limit: 1 })).length, 1)
      const listed = (await leases.unknown({ limit: 1_000 })).find(({ id }) => id === claim.id)
      assert.ok(listed && listed.sinceMs >= 0, `unknown for ${listed?.sinceMs} ms`)
      assert.equal(await leases.finishStep({ ...held, life, name: 'charge', result: '1' }), false)
      assert.equal(await leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) }), null)
      assert.equal(await leases.settle({ claim, verdict: { kind: 'done', step: 'charge', result: '"paid"' } }), true)
      assert.deepEqual(await leases.steps({ id: claim.id, life }), [
        { name: 'charge', state: 'done', result: '"paid"' },
      ])
      const next = await leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.deepEqual([next?.attempt, next?.life], [2, life])
      assert.ok(!(await leases.unknown({ limit: 1_000 })).some(({ id }) => id === claim.id))
    },
  },
  {
    name: 'an operator may have a call repeated, or end the operation',
    async test({ store }) {
      const { leases } = store
      for (const verdict of ['rerun', 'failed'] as const) {
        const claim = claimOf(newKey())
        const { token, life } = await winLease(store, claim)
        await leases.startStep({ id: claim.id, token, life, name: 'charge' })
        await leases.suspend({ id: claim.id, token })
        if (verdict === 'rerun') {
          assert.equal(await leases.settle({ claim, verdict: { kind: 'rerun', step: 'charge' } }), true)
          assert.deepEqual(await leases.steps({ id: claim.id, life }), [])
          assert.ok(((await recordOf(store, claim)).leaseLeftMs ?? 1) <= 0)
        } else {
          assert.equal(
            await leases.settle({ claim, verdict: { kind: 'failed', answer: answerOf('"failed"', 409) } }),
            true,
          )
          const { record, answer } = await store.read({ id: claim.id })
          assert.deepEqual([record?.state, textOf(answer)], ['completed', '"failed"'])
        }
        assert.equal(await leases.settle({ claim, verdict: { kind: 'rerun', step: 'charge' } }), false)
      }
    },
  },
  {
    name: 'an operator finds an abandoned operation by its notes, and may end it',
    needs: ['search'],
    async test({ store }) {
      const { leases } = store
      const label = `order ${newKey()}`
      const about = { namespace: 'contract', route: 'POST /orders', label }
      const claim = claimOf(newKey())
      await leases.claim({ ...leaseOf(claim), leaseMs: 10, about })
      const filter = {
        namespace: 'contract',
        state: null,
        route: null,
        label,
        scope: null,
        olderThanMs: 0,
        limit: 10,
      } as const
      await pass(50)
      const [found] = await leases.list({ ...filter, state: 'abandoned', route: 'POST /orders', scope: claim.scope })
      assert.deepEqual(
        [found?.id, found?.namespace, found?.route, found?.label, found?.attempt, found?.recover],
        [claim.id, 'contract', 'POST /orders', label, 1, null],
      )
      assert.ok((found?.leaseLeftMs ?? 1) < 0 && (found?.ageMs ?? 0) >= 40)
      const others = [{ state: 'running' }, { route: 'x' }, { namespace: 'other' }, { olderThanMs: 60_000 }] as const
      for (const other of others) assert.deepEqual(await leases.list({ ...filter, ...other }), [])
      const failed = { kind: 'failed', answer: answerOf('"over"', 409) } as const
      assert.equal(await leases.settle({ claim, verdict: failed }), true)
      assert.deepEqual(await leases.list(filter), [])
      assert.equal((await leases.show({ id: claim.id }))?.operation.state, 'completed')
      assert.equal(await leases.show({ id: claimOf(newKey()).id }), null)
    },
  },
  {
    name: 'an operator ends a lease: its holder is fenced, and the next attempt begins at once',
    needs: ['search'],
    async test({ store }) {
      const { leases } = store
      const claim = claimOf(newKey())
      const { token, life } = await winLease(store, claim, 60_000)
      assert.equal((await leases.show({ id: claim.id }))?.operation.state, 'running')
      assert.equal(await leases.evict(claim), true)
      assert.equal((await leases.show({ id: claim.id }))?.operation.state, 'abandoned')
      assert.equal(await leases.finishStep({ id: claim.id, token, life, name: 'charge', result: '1' }), false)
      const next = await leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.deepEqual([next?.attempt, next?.life], [2, life])
      // A call without an idempotency key has started, so only an operator can tell its outcome.
      await leases.startStep({ id: claim.id, token: next?.token ?? '', life, name: 'wire' })
      assert.equal(await leases.evict(claim), false)
    },
  },
  {
    name: 'a lapsed operation past its retention cannot be taken over, but can be settled',
    needs: ['search'],
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 20 })
      await winLease(store, claim, 10)
      await pass(50)
      const seen = await recordOf(store, claim)
      assert.equal(await store.leases.takeOver({ ...leaseOf(claim), seen }), null)
      assert.ok((await store.leases.unknown({ limit: 1_000 })).some(({ id }) => id === claim.id))
      const longer = claimOf(newKey())
      assert.equal(
        await store.leases.settle({ claim: { ...longer, id: claim.id }, verdict: { kind: 'rerun', step: 'x' } }),
        true,
      )
      assert.ok(await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) }))
    },
  },
]
