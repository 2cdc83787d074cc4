import { expect, it } from 'vitest'
import { final } from '../../src/index.ts'
import type { Claim } from '../../src/store/store.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { claimOf } from '../support/claims.ts'
import { describeAll, describeClient, describeClients, type Place } from '../support/stores.ts'

const LEASE_MS = 60

function lease(claim: Claim, leaseMs = LEASE_MS): { claim: Claim; leaseMs: number; recover: null } {
  return { claim, leaseMs, recover: null }
}

/** Claims, lets the lease lapse, and lets another attempt take over: what was claimed first is a zombie now. */
async function zombie(
  { bed }: Place,
  key: string,
): Promise<{
  claim: Claim
  old: { id: string; token: string; life: string }
  now: { id: string; token: string; life: string }
}> {
  const claim = claimOf(key)
  const { claimed } = await bed.store.leases.claim(lease(claim))
  await later(LEASE_MS + 40)
  const seen = (await bed.store.read({ id: claim.id })).record!
  const taken = await bed.store.leases.takeOver({ ...lease(claim, 60_000), seen })
  expect(taken).not.toBeNull()
  return { claim, old: { id: claim.id, ...claimed! }, now: { id: claim.id, ...taken! } }
}

const ANSWER = { status: 200, headers: [], body: null, kept: true } as const

describeAll('leased operations', (place) => {
  it('call once, commit once, and answer every retry alike', async () => {
    let calls = 0
    const run = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'paid', input: 1, lease: '5s' }, async ({ step, commit }) => {
        const payment = await step('pay', async ({ key }) => ({ key, call: ++calls }))
        return commit(async ({ tx }) => ({ ...(await insertCharge(place, tx, 'paid')), payment }))
      })
    const first = await run()
    expect(await run()).toEqual(first)
    expect(calls).toBe(1)
    expect(await countCharges(place, 'paid')).toBe(1)
  })

  it('resume after the recorded steps, under the same derived key', async () => {
    const keys: string[] = []
    let attempts = 0
    const run = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'resumed', input: 1, lease: '5s' }, async ({ step, commit, attempt }) => {
        attempts = attempt
        const first = await step('first', async () => 'made once')
        const prepared = await step.tx('prepare', async ({ tx }) => insertCharge(place, tx, 'prepared'))
        await step('second', async ({ key }) => {
          keys.push(key)
          if (keys.length === 1) throw new Error('the provider timed out')
        })
        return commit(async ({ tx }) => ({ first, prepared, ...(await insertCharge(place, tx, 'resumed')) }))
      })
    await expect(run()).rejects.toThrow('the provider timed out')
    expect(await run()).toMatchObject({ first: 'made once' })
    expect(attempts).toBe(2)
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
    expect([await countCharges(place, 'prepared'), await countCharges(place, 'resumed')]).toEqual([1, 1])
  })

  // finding 1
  it('fence by a statement that raises: a zombie commits nothing, its business rows included', async () => {
    const { claim, old } = await zombie(place, 'fenced')
    const session = await place.bed.store.open({ deadlineMs: 5_000 })
    await insertCharge(place, session.tx, 'fenced')
    const completing = session.complete({
      claim,
      claimed: { ...old, attempt: 1, answerDay: '' },
      answer: ANSWER,
      events: [],
      fenced: true,
    })
    expect(await outcomeOf(completing)).toBe('ONCE_LEASE_LOST')
    expect(await countCharges(place, 'fenced')).toBe(0)
  })

  // finding 10 of the invariants: nothing at all
  it('let a zombie neither record, start, release, refuse, suspend nor keep its lease', async () => {
    const { claim, old, now } = await zombie(place, 'powerless')
    const { leases } = place.bed.store
    expect(await leases.finishStep({ ...old, name: 'step', result: '1' })).toBe(false)
    expect(await leases.startStep({ ...old, name: 'step' })).toBe(false)
    expect(await leases.release(old)).toBe(false)
    expect(await leases.suspend(old)).toBe(false)
    expect(await leases.finish({ ...old, claim, answer: ANSWER })).toBe(false)
    expect(await leases.heartbeat({ leases: [old], leaseMs: 5_000 })).toEqual([])
    const session = await place.bed.store.open({ deadlineMs: 5_000 })
    await insertCharge(place, session.tx, 'powerless')
    expect(await outcomeOf(session.completeStep({ ...old, name: 'tx', result: '1' }))).toBe('ONCE_LEASE_LOST')
    expect(await countCharges(place, 'powerless')).toBe(0)
    expect(await leases.steps(now)).toEqual([])
    expect(await leases.heartbeat({ leases: [now], leaseMs: 5_000 })).toEqual([now.id])
  })

  // finding 14
  it('never repeat a token, also across a sweep', async () => {
    const claim = { ...claimOf('second life'), replayForMs: 1, goneForMs: 0 }
    const { leases, retention } = place.bed.store
    const first = (await leases.claim(lease(claim, 1))).claimed!
    const refused = await leases.finish({ id: claim.id, token: first.token, claim, answer: ANSWER })
    expect(refused).toBe(true)
    await later(20)
    expect((await retention.sweep({ limit: 100, replayForMs: 1 })).records).toBeGreaterThan(0)
    expect((await place.bed.store.read({ id: claim.id })).record).toBeNull()
    const second = (await leases.claim(lease(claim))).claimed!
    expect(BigInt(second.token)).toBeGreaterThan(BigInt(first.token))
    expect(second.life).not.toBe(first.life)
    expect(
      await leases.finishStep({ id: claim.id, token: first.token, life: first.life, name: 'late', result: '1' }),
    ).toBe(false)
  })

  // finding 16
  it('turn unknown when an attempt died inside an unkeyed call, until an operator settles it', async () => {
    const operation = { scope: 'u', key: 'unkeyed', input: 1, lease: '5s' } as const
    let calls = 0
    const run = (): Promise<unknown> =>
      place.once().run(operation, async ({ step, commit }) => {
        const wired = await step('wire', async () => ++calls, { keyed: false })
        return commit(async ({ tx }) => ({ wired, ...(await insertCharge(place, tx, 'unkeyed')) }))
      })
    // The first attempt dies inside its call: the intent is committed, nothing else.
    const dead = place
      .once()
      .run(operation, ({ step }) =>
        step('wire', () => Promise.reject(new Error('connection lost')), { keyed: false }).then((x) => x),
      )
    await expect(dead).rejects.toThrow('connection lost')
    expect(await outcomeOf(run())).toBe('ONCE_OUTCOME_UNKNOWN')
    expect(await outcomeOf(run())).toBe('ONCE_OUTCOME_UNKNOWN')
    expect(calls).toBe(0)
    const once = place.once()
    expect(await once.unknown()).toContainEqual({ id: claimOf('unkeyed').id, sinceMs: expect.any(Number) })
    expect(await once.settle({ scope: 'u', key: 'unkeyed' }, { step: 'wire', done: 'by wire 7' })).toBe(true)
    expect(await run()).toMatchObject({ wired: 'by wire 7' })
    expect(calls).toBe(0)
    expect(await once.settle({ scope: 'u', key: 'unkeyed' }, { step: 'wire', rerun: true })).toBe(false)
  })

  it('are told to be unknown whatever their handler makes of that', async () => {
    const endings: Record<string, () => unknown> = {
      'returns nothing': () => undefined,
      'throws an error of its own': () => Promise.reject(new TypeError('mine')),
    }
    for (const [key, end] of Object.entries(endings)) {
      const once = place.once()
      const run = (): Promise<unknown> =>
        once.run({ scope: 'u', key, input: 1, lease: '5s' }, async ({ step }) => {
          await step('wire', () => Promise.reject(new Error('connection lost')), { keyed: false }).catch(() => {})
          return end() as never
        })
      expect(await outcomeOf(run())).not.toBe('ONCE_OUTCOME_UNKNOWN')
      expect([key, await outcomeOf(run()), await outcomeOf(run())]).toEqual([
        key,
        'ONCE_OUTCOME_UNKNOWN',
        'ONCE_OUTCOME_UNKNOWN',
      ])
    }
  })

  it('fence a holder that slept while an operator settled its operation', async () => {
    const claim = claimOf('slept')
    const { leases } = place.bed.store
    const { claimed } = await leases.claim(lease(claim, 60_000))
    const held = { id: claim.id, token: claimed!.token }
    expect(await leases.suspend(held)).toBe(true)
    expect(await leases.settle({ claim, verdict: { kind: 'done', step: 'call', result: '"settled"' } })).toBe(true)
    expect(await leases.finishStep({ ...held, life: claimed!.life, name: 'call', result: '"late"' })).toBe(false)
    expect(await leases.steps({ id: claim.id, life: claimed!.life })).toEqual([
      { name: 'call', state: 'done', result: '"settled"' },
    ])
  })

  it('ask the provider by reconcile: done, rerun or stop', async () => {
    for (const verdict of ['done', 'rerun', 'stop'] as const) {
      const operation = { scope: 'u', key: `reconcile ${verdict}`, input: 1, lease: '5s' } as const
      let calls = 0
      const run = (): Promise<unknown> =>
        place.once().run(operation, async ({ step, commit }) => {
          const call = (): Promise<string> =>
            ++calls === 1 ? Promise.reject(new Error('lost')) : Promise.resolve('called again')
          const reconcile = async (): Promise<{ done: string } | 'rerun' | 'stop'> =>
            verdict === 'done' ? { done: 'it happened' } : verdict
          const wired = await step('wire', call, { keyed: false, reconcile })
          return commit(async ({ tx }) => ({ wired, ...(await insertCharge(place, tx, operation.key)) }))
        })
      await expect(run()).rejects.toThrow('lost')
      if (verdict === 'stop') expect(await outcomeOf(run())).toBe('ONCE_OUTCOME_UNKNOWN')
      else expect(await run()).toMatchObject({ wired: verdict === 'done' ? 'it happened' : 'called again' })
      expect(calls).toBe(verdict === 'rerun' ? 2 : 1)
    }
  })

  // finding 19
  it('are finished by recover when nobody retries', async () => {
    const crash = place
      .once()
      .run(
        { scope: 'u', key: 'abandoned', input: { amount: 7 }, lease: '100ms', recover: 'charge' },
        async ({ step }) => {
          await step('pay', async () => 'paid')
          throw new Error('the process died')
        },
      )
    await expect(crash).rejects.toThrow('the process died')
    const once = place.once()
    const recovered = await once.recover({
      charge: async ({ step, commit }, input: { amount: number }) => {
        const paid = await step('pay', async () => 'paid twice')
        return commit(async ({ tx }) => ({ paid, ...(await insertCharge(place, tx, 'abandoned', input.amount)) }))
      },
    })
    expect(recovered).toEqual({ finished: 1, left: 0 })
    expect(await once.recover({})).toEqual({ finished: 0, left: 0 })
    expect(await countCharges(place, 'abandoned')).toBe(1)
    const retried = await once.run({ scope: 'u', key: 'abandoned', input: { amount: 7 } }, async () => 'ran again')
    expect(retried).toMatchObject({ paid: 'paid' })
  })

  it('are found by recover behind others that nobody here can finish', async () => {
    const abandon = (key: string, recover: string): Promise<string> =>
      outcomeOf(
        place.once().run({ scope: 'u', key, input: 1, lease: '100ms', recover }, async () => {
          throw new TypeError('the process died')
        }),
      )
    for (const name of ['renamed', 'constructor', 'refund'])
      expect(await abandon(`left ${name}`, name)).toBe('TypeError')
    await later(150)
    const refund = place.once().recover({ refund: ({ commit }) => commit(() => 'refunded') }, { limit: 1 })
    expect(await refund).toEqual({ finished: 1, left: 0 })
  })

  it('are kept alive by heartbeats while they work, and refuse others with the rest of the lease', async () => {
    const slow = place.once().run({ scope: 'u', key: 'beating', input: 1, lease: '200ms' }, async ({ commit }) => {
      await later(700)
      return commit(({ tx }) => insertCharge(place, tx, 'beating'))
    })
    await later(450)
    const duplicate = place
      .once()
      .run({ scope: 'u', key: 'beating', input: 1, lease: '200ms' }, ({ commit }) => commit(() => 'ran twice'))
    await expect(duplicate).rejects.toMatchObject({ code: 'ONCE_IN_FLIGHT', retryAfterMs: expect.any(Number) })
    expect(await slow).toMatchObject({ key: 'beating' })
    expect(await countCharges(place, 'beating')).toBe(1)
  })

  it('store a refusal, refuse to end without commit, and refuse steps nobody awaited', async () => {
    const refused = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'leased 402', input: 1, lease: '5s' }, async ({ commit }) =>
        commit(async ({ tx }) => {
          await insertCharge(place, tx, 'leased 402')
          throw final({ status: 402 })
        }),
      )
    await expect(refused()).rejects.toMatchObject({ status: 402 })
    await expect(refused()).rejects.toMatchObject({ status: 402 })
    expect(await countCharges(place, 'leased 402')).toBe(0)
    const forgotten = place
      .once()
      .run({ scope: 'u', key: 'forgotten', input: 1, lease: '5s' }, async () => 'no commit' as never)
    expect(await outcomeOf(forgotten)).toBe('ONCE_NOT_COMMITTED')
    const pending = place
      .once()
      .run({ scope: 'u', key: 'pending', input: 1, lease: '5s' }, async ({ step, commit }) => {
        return commit(async ({ tx }) => {
          await insertCharge(place, tx, 'pending')
          await step('late', () => later(200))
        })
      })
    expect(await outcomeOf(pending)).toBe('ONCE_STEP_PENDING')
    const twice = place.once().run({ scope: 'u', key: 'twice', input: 1, lease: '5s' }, async ({ step, commit }) => {
      await step('same', async () => 1)
      await step('same', async () => 2)
      return commit(() => 'never')
    })
    expect(await outcomeOf(twice)).toBe('ONCE_STEP_INVALID')
    expect([await countCharges(place, 'pending'), await countCharges(place, 'twice')]).toEqual([0, 0])
  })

  it('cannot run inside an atomic operation', async () => {
    const once = place.once()
    const nested = once.run({ scope: 'u', key: 'outer', input: 1 }, async () =>
      once.run({ scope: 'u', key: 'inner', input: 1, lease: '5s' }, ({ commit }) => commit(() => 1)),
    )
    expect(await outcomeOf(nested)).toBe('ONCE_NESTED_LEASE')
  })
})

describeClients('leased operations on a server', (place) => {
  // finding 17
  it('let no zombie record a step beside an uncommitted takeover', async () => {
    const { claim, old } = await zombie(place, 'step race')
    const { store, own, raw } = place.bed
    const current = (await store.read({ id: claim.id })).record!
    let recording: Promise<boolean> | undefined
    await own(async (tx) => {
      await raw(tx, `update effectively_once.record set token = token + 1 where id = '${claim.id}'`)
      recording = store.leases.finishStep({
        id: claim.id,
        token: current.token,
        life: old.life,
        name: 'race',
        result: '1',
      })
      recording.catch(() => {})
      await later(100)
    })
    expect(await recording).toBe(false)
    expect(await store.leases.steps({ id: claim.id, life: old.life })).toEqual([])
  })

  // finding 18
  it('beat beside the final transaction without waiting for it, and still count as ours', async () => {
    const claim = claimOf('finishing')
    const { leases } = place.bed.store
    const claimed = (await leases.claim(lease(claim, 60_000))).claimed!
    await place.bed.own(async (tx) => {
      await place.bed.raw(tx, `select 1 as one from effectively_once.record where id = '${claim.id}' for update`)
      const startedAt = performance.now()
      expect(await leases.heartbeat({ leases: [{ id: claim.id, token: claimed.token }], leaseMs: 60_000 })).toEqual([
        claim.id,
      ])
      expect(performance.now() - startedAt).toBeLessThan(400)
    })
  })

  // finding 3, for leased claims
  it('never wait for an atomic operation on the same key', async () => {
    let go: () => void = () => {}
    let inside: () => void = () => {}
    const started = new Promise<void>((resolve) => (inside = resolve))
    const gate = new Promise<void>((resolve) => (go = resolve))
    const atomic = place.once().run({ scope: 'u', key: 'both', input: 1 }, async ({ tx }) => {
      const charged = await insertCharge(place, tx, 'both')
      inside()
      await gate
      return charged
    })
    await started
    const leased = (input: number): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'both', input, lease: '5s' }, ({ commit }) => commit(() => 'ran twice'))
    expect(await outcomeOf(leased(1))).toBe('ONCE_IN_FLIGHT')
    expect(await outcomeOf(leased(2))).toBe('ONCE_MISMATCH')
    go()
    const charged = await atomic
    expect(await leased(1)).toEqual(charged)
  })
})

describeClient('heartbeats', 'pg', (place) => {
  it('do not queue behind a full pool', async () => {
    let claimed: () => void = () => {}
    const started = new Promise<void>((resolve) => (claimed = resolve))
    const leased = place.once().run({ scope: 'u', key: 'squeezed', input: 1, lease: '300ms' }, async ({ commit }) => {
      claimed()
      await later(700)
      return commit(({ tx }) => insertCharge(place, tx, 'squeezed'))
    })
    await started
    const holders = Array.from({ length: 10 }, (_, i) =>
      place.once().run({ scope: 'u', key: `holder ${i}`, input: i }, () => later(900)),
    )
    await later(500)
    const { record } = await place.bed
      .admin(
        `select count(*)::int as record from effectively_once.record where state = 1 and lease_until > clock_timestamp()`,
      )
      .then((rows) => rows[0] as { record: number })
    expect(record).toBe(1)
    await Promise.all([...holders, leased])
    expect(await countCharges(place, 'squeezed')).toBe(1)
  })
})
