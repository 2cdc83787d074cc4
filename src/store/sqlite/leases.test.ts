import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { age, count, makeAnswer, makeClaim, makeEvent, query } from '../../../test/support/sqlite-data.ts'
import type { Claim } from '../store.ts'
import type { SqliteStore } from './sqlite.ts'

async function lease(store: SqliteStore, claim: Claim, leaseMs = 60_000) {
  const { claimed } = await store.leases.claim({ claim, leaseMs, recover: null })
  return { id: claim.id, token: claimed!.token, life: claimed!.life }
}

async function seenBy(store: SqliteStore, claim: Claim) {
  return (await store.read({ id: claim.id })).record!
}

/** Lets the lease lapse and takes it over, as the next attempt does. */
async function takeOver(store: SqliteStore, claim: Claim, held: { id: string; token: string }) {
  await store.leases.release(held)
  const claimed = await store.leases.takeOver({
    claim,
    leaseMs: 60_000,
    recover: null,
    seen: await seenBy(store, claim),
  })
  return { id: claim.id, token: claimed!.token, life: claimed!.life }
}

describeSqlite('leases', (lab) => {
  it('a claim commits at once, with its lease', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { view, claimed } = await store.leases.claim({ claim, leaseMs: 5_000, recover: null })
    expect(view).toMatchObject({ inserted: true })
    const record = await seenBy(store, claim)
    expect(record).toMatchObject({ state: 'inProgress', token: claimed!.token, life: claimed!.token, attempt: 1 })
    expect(record.leaseLeftMs).toBeGreaterThan(3_000)
    expect(record.leaseLeftMs).toBeLessThanOrEqual(5_000)
    const second = await store.leases.claim({ claim, leaseMs: 5_000, recover: null })
    expect(second).toMatchObject({ view: { inserted: false, record: { state: 'inProgress' } }, claimed: null })
  })

  it('a lapsed lease is taken over once, with a higher token and the same life', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const held = await lease(store, claim)
    const live = await seenBy(store, claim)
    expect(await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen: live })).toBeNull()
    expect(await store.leases.release(held)).toBe(true)
    const seen = await seenBy(store, claim)
    expect(seen.leaseLeftMs).toBeLessThanOrEqual(0)
    const next = await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen })
    expect(next).toMatchObject({ life: held.life, attempt: 2 })
    expect(BigInt(next!.token)).toBeGreaterThan(BigInt(held.token))
    // Lapsed again, but not as it was seen.
    await store.leases.release({ id: claim.id, token: next!.token })
    expect(await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen })).toBeNull()
  })

  it('past its time a lapsed operation is not taken over', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    await lease(store, claim)
    await age(store, claim.id, 60_000)
    const seen = await seenBy(store, claim)
    expect(await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen })).toBeNull()
  })

  it('an expired record starts a new life under a lease', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const held = await lease(store, claim)
    await store.leases.finishStep({ ...held, name: 's', result: '1' })
    await store.leases.finish({ ...held, claim, answer: makeAnswer() })
    await age(store, claim.id, 120_000)
    const seen = await seenBy(store, claim)
    const next = await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen })
    expect(next).toMatchObject({ attempt: 1 })
    expect(next!.life).toBe(next!.token)
    expect(await store.read({ id: claim.id })).toMatchObject({ record: { state: 'inProgress' }, answer: null })
    expect(await count(store, 'effectively_once_step')).toBe(0)
  })

  it('heartbeats keep what is ours, and say what is not', async () => {
    const store = await lab.store()
    const [mine, taken] = [makeClaim(), makeClaim()]
    const held = [await lease(store, mine, 1_000), await lease(store, taken, 1_000)]
    await takeOver(store, taken, held[1]!)
    expect(await store.leases.heartbeat({ leases: held, leaseMs: 30_000 })).toEqual([mine.id])
    expect((await seenBy(store, mine)).leaseLeftMs).toBeGreaterThan(20_000)
    expect(await store.leases.heartbeat({ leases: [], leaseMs: 30_000 })).toEqual([])
  })

  it('a zombie can do nothing', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const zombie = await lease(store, claim)
    const holder = await takeOver(store, claim, zombie)
    const { leases } = store
    expect(await leases.release(zombie)).toBe(false)
    expect(await leases.startStep({ ...zombie, name: 's' })).toBe(false)
    expect(await leases.finishStep({ ...zombie, name: 's', result: '1' })).toBe(false)
    expect(await leases.suspend(zombie)).toBe(false)
    expect(await leases.finish({ ...zombie, claim, answer: makeAnswer() })).toBe(false)
    expect(await leases.steps({ id: claim.id, life: zombie.life })).toEqual([])

    const step = await store.open({ deadlineMs: 1_000 })
    await step.tx.query('insert into charge (key) values ($1)', ['zombie'])
    await expect(step.completeStep({ ...zombie, name: 's', result: '1' })).rejects.toMatchObject({
      code: 'ONCE_LEASE_LOST',
    })

    const session = await store.open({ deadlineMs: 1_000 })
    await session.tx.query('insert into charge (key) values ($1)', ['zombie'])
    const claimed = { ...zombie, attempt: 1, answerDay: '2026-01-01' }
    const ending = session.complete({ claim, claimed, answer: makeAnswer(), events: [makeEvent()], fenced: true })
    await expect(ending).rejects.toMatchObject({ code: 'ONCE_LEASE_LOST' })
    await expect(session.tx.query('select 1')).rejects.toMatchObject({ code: 'ONCE_LEASE_LOST' })

    expect([await count(store, 'charge'), await count(store, 'effectively_once_event')]).toEqual([0, 0])
    expect(await seenBy(store, claim)).toMatchObject({ state: 'inProgress', token: holder.token })
  })

  it('completes behind the fence, also after the lease lapsed, and replays for its whole time from then on', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const recover = { namespace: 'n', name: 'pay', input: '{}' }
    const { claimed } = await store.leases.claim({ claim, leaseMs: 1_000, recover })
    await age(store, claim.id, 50_000)
    const session = await store.open({ deadlineMs: 1_000 })
    await session.tx.query('insert into charge (key) values ($1)', ['a'])
    const params = { claim, claimed: claimed!, answer: makeAnswer(), events: [makeEvent()], fenced: true }
    expect(await session.complete(params)).toBe('committed')
    const { record, answer } = await store.read({ id: claim.id })
    expect(record).toMatchObject({ state: 'completed', token: claimed!.token, leaseLeftMs: null })
    expect(record!.expiresInMs).toBeGreaterThan(50_000)
    expect(answer).toEqual(makeAnswer())
    expect(await count(store, 'charge')).toBe(1)
    expect(await count(store, 'effectively_once_recover')).toBe(0)
    // The same token does not complete twice.
    const again = await store.open({ deadlineMs: 1_000 })
    await expect(again.complete(params)).rejects.toMatchObject({ code: 'ONCE_LEASE_LOST' })
    expect(await store.leases.finish({ id: claim.id, token: claimed!.token, claim, answer: makeAnswer() })).toBe(false)
  })

  it('records steps per life', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const held = await lease(store, claim)
    expect(await store.leases.startStep({ ...held, name: 'one' })).toBe(true)
    expect(await store.leases.startStep({ ...held, name: 'one' })).toBe(true)
    expect(await store.leases.steps(held)).toEqual([{ name: 'one', state: 'started', result: null }])
    expect(await store.leases.finishStep({ ...held, name: 'one', result: '{"id":1}' })).toBe(true)
    const session = await store.open({ deadlineMs: 1_000 })
    await session.tx.query('insert into charge (key) values ($1)', ['a'])
    expect(await session.completeStep({ ...held, name: 'two', result: 'null' })).toBe('committed')
    // Recorded once: neither a late start nor a late result changes it.
    await store.leases.startStep({ ...held, name: 'one' })
    await store.leases.finishStep({ ...held, name: 'one', result: '{"id":2}' })
    expect(await store.leases.steps(held)).toEqual([
      { name: 'one', state: 'done', result: '{"id":1}' },
      { name: 'two', state: 'done', result: 'null' },
    ])
    expect(await store.leases.steps({ id: claim.id, life: '1' })).toEqual([])
    expect(await count(store, 'charge')).toBe(1)
  })

  it.each(['done', 'rerun', 'failed'] as const)('an operator settles an unknown operation: %s', async (kind) => {
    const store = await lab.store()
    const claim = makeClaim()
    const held = await lease(store, claim)
    await store.leases.startStep({ ...held, name: 's' })
    const verdict = {
      done: { kind: 'done', step: 's', result: '7' },
      rerun: { kind: 'rerun', step: 's' },
      failed: { kind: 'failed', answer: makeAnswer('no') },
    } as const
    const params = { claim, verdict: verdict[kind] }
    expect(await store.leases.settle(params)).toBe(false) // it is running
    expect(await store.leases.suspend(held)).toBe(true)
    expect(await seenBy(store, claim)).toMatchObject({ state: 'unknown', leaseLeftMs: null })
    await age(store, claim.id, 90_000)
    expect(await store.leases.unknown({ limit: 10 })).toEqual([{ id: claim.id, sinceMs: expect.any(Number) }])
    expect((await store.leases.unknown({ limit: 10 }))[0]!.sinceMs).toBeGreaterThan(80_000)
    expect(await store.leases.settle(params)).toBe(true)
    expect(await store.leases.settle(params)).toBe(false)
    const { record, answer } = await store.read({ id: claim.id })
    expect(record!.expiresInMs).toBeGreaterThan(50_000)
    expect(await store.leases.steps(held)).toEqual(
      kind === 'rerun'
        ? []
        : [kind === 'done' ? { name: 's', state: 'done', result: '7' } : { name: 's', state: 'started', result: null }],
    )
    if (kind === 'failed') return expect([record!.state, answer]).toEqual(['completed', makeAnswer('no')])
    // The next attempt resumes; whoever left it in doubt has nothing to say any more.
    expect(record).toMatchObject({ state: 'inProgress', life: held.life })
    expect(record!.leaseLeftMs).toBeLessThanOrEqual(0)
    expect(await store.leases.finishStep({ ...held, name: 's', result: '8' })).toBe(false)
    expect(await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen: record! })).toMatchObject({
      life: held.life,
    })
  })

  it('what lapsed past its time is unknown before the sweeper says so', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    await lease(store, claim)
    await age(store, claim.id, 60_000)
    expect(await store.leases.unknown({ limit: 10 })).toMatchObject([{ id: claim.id }])
    expect(await store.leases.settle({ claim, verdict: { kind: 'rerun', step: 's' } })).toBe(true)
  })

  it('lists what lapsed and can be recovered, oldest first', async () => {
    const store = await lab.store()
    const recover = (name: string, namespace = 'shop') => ({ namespace, name, input: `"${name}"` })
    const claims = [
      makeClaim({ id: 'young' }),
      makeClaim({ id: 'old' }),
      makeClaim({ id: 'other' }),
      makeClaim({ id: 'held' }),
    ]
    for (const claim of claims) {
      await store.leases.claim({
        claim,
        leaseMs: 100,
        recover: recover(claim.id, claim.id === 'other' ? 'else' : 'shop'),
      })
    }
    await lease(store, makeClaim({ id: 'unrecoverable' }), 100)
    for (const [id, ms] of Object.entries({ young: 200, old: 400, other: 400, unrecoverable: 400 }))
      await age(store, id, ms)
    await query(store, `update effectively_once_record set lease_until = lease_until + 60000 where id = 'held'`)
    expect(await store.leases.lapsed({ limit: 10, namespace: 'shop' })).toEqual([
      { id: 'old', name: 'old', input: '"old"' },
      { id: 'young', name: 'young', input: '"young"' },
    ])
    expect(await store.leases.lapsed({ limit: 1, namespace: 'shop' })).toHaveLength(1)
  })
})
