import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { effectivelyOnce, event, inProcessSink, type Once } from '../../src/index.ts'
import { githubSource } from '../../src/source/github.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import type { Store } from '../../src/store/store.ts'
import { storeContract } from '../../src/testing/contract/store-contract.ts'
import { KeyStore } from '../support/key-store.ts'
import { RowStore } from '../support/row-store.ts'

let once: Once<undefined, {}>
beforeEach(() => {
  once = effectivelyOnce({ namespace: 'shop', store: new KeyStore(), guard: 'off' })
})
afterEach(() => once.close())

const operation = { scope: 'ann', key: 'order-1', input: { amount: 5 }, lease: '5s' } as const

describe('an instance on a store without transactions', () => {
  it('runs once, replays the answer, and refuses another request under the key', async () => {
    let calls = 0
    const pay = (input: unknown): Promise<unknown> =>
      once.run({ ...operation, input }, async ({ step, commit }) => {
        const paid = await step('pay', async () => ++calls)
        return commit(({ tx }) => ({ paid, tx: tx === undefined }))
      })
    const first = await pay({ amount: 5 })
    expect([first, await pay({ amount: 5 }), calls]).toEqual([{ paid: 1, tx: true }, first, 1])
    const fresh = effectivelyOnce({ namespace: 'shop', store: storeOf(once), guard: 'off' })
    await expect(fresh.run({ ...operation, input: 6 }, ({ commit }) => commit(() => 1))).rejects.toMatchObject({
      code: 'ONCE_MISMATCH',
    })
    await fresh.close()
  })

  it('commits nothing when an event was published, awaited or not: there is nowhere to write it', async () => {
    const publishing = once.run(operation, ({ commit }) =>
      commit(({ publish }) => {
        void (publish as (type: string, data: unknown) => Promise<string>)('order.made', {})
        return 1
      }),
    )
    await expect(publishing).rejects.toMatchObject({ code: 'ONCE_EVENT_UNKNOWN' })
    expect(await once.run(operation, ({ commit }) => commit(() => 2))).toBe(2)
  })

  it('refuses a duplicate while the first one runs, in another instance too', async () => {
    const beside = effectivelyOnce({ namespace: 'shop', store: storeOf(once), guard: 'off' })
    let end = (): void => {}
    const held = new Promise<void>((resolve) => (end = resolve))
    const first = once.run(operation, async ({ commit }) => {
      await held
      return commit(() => 'done')
    })
    await new Promise((resolve) => setImmediate(resolve))
    for (const instance of [once, beside]) {
      await expect(instance.run(operation, ({ commit }) => commit(() => 'twice'))).rejects.toMatchObject({
        code: 'ONCE_IN_FLIGHT',
      })
    }
    end()
    expect([await first, await beside.run(operation, ({ commit }) => commit(() => 'twice'))]).toEqual(['done', 'done'])
    await beside.close()
  })

  it('resumes after the step that was recorded, and whoever lost the lease stores nothing', async () => {
    const calls: string[] = []
    const attempt = (fails: boolean): Promise<unknown> =>
      once.run(operation, async ({ step, commit, attempt: number }) => {
        await step('pay', async () => void calls.push('pay'))
        if (fails) throw new Error('the process dies here')
        return commit(() => number)
      })
    await expect(attempt(true)).rejects.toThrow('dies here')
    expect([await attempt(false), calls]).toEqual([2, ['pay']])
    const store = storeOf(once)
    const lost = once.run({ ...operation, key: 'lost' }, async ({ commit, id }) => {
      const { record } = await store.read({ id })
      await store.leases.release({ id, token: record!.token })
      const claim = { id, fingerprint: record!.fingerprint, fingerprintVersion: 1 } as never
      await store.leases.takeOver({ claim, leaseMs: 1_000, recover: null, seen: record! })
      return commit(() => 'zombie')
    })
    await expect(lost).rejects.toMatchObject({ code: 'ONCE_LEASE_LOST' })
  })

  it('serves a protected route with a lease: 201, replay, 409, 422, and a refusal that stays', async () => {
    const idempotent = idempotency(once, { scope: 'global' })
    let end = (): void => {}
    const held = new Promise<void>((resolve) => (end = resolve))
    const post = idempotent({ lease: '5s' }, async (request, { commit }) => {
      const { amount } = (await request.json()) as { amount: number }
      if (amount < 0) return Response.json('no', { status: 402 }) as never
      if (amount === 9) await held
      return commit(() => Response.json({ amount }, { status: 201 }))
    })
    const send = (key: string, amount: number): Promise<Response> =>
      post(
        new Request('http://shop/pay', {
          method: 'POST',
          headers: { 'idempotency-key': key, 'content-type': 'application/json' },
          body: JSON.stringify({ amount }),
        }),
      )
    const [made, again] = [await send('a', 5), await send('a', 5)]
    expect([made.status, again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 201, 'true'])
    expect((await send('a', 6)).status).toBe(422)
    const slow = send('b', 9)
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect((await send('b', 9)).status).toBe(409)
    end()
    expect((await slow).status).toBe(201)
  })
})

describe('what a store without transactions cannot do is refused in one sentence', () => {
  const from = 'use a SQL store such as pgStore(pool) or sqliteStore({ file })'
  const attempts: Record<string, [(o: Once<undefined, {}>) => unknown, string]> = {
    'an atomic run': [
      (o) => o.run({ scope: 'a', key: 'k', input: 1 }, async () => 1),
      `has no transactions: give the operation a lease, such as { lease: '30s' }, or ${from}`,
    ],
    'an atomic route': [
      (o) => idempotency(o, { scope: 'global' })(async () => new Response('x')),
      `has no transactions: give the operation a lease, such as { lease: '30s' }, or ${from}`,
    ],
    'step.tx': [
      (o) =>
        o.run(operation, async ({ step, commit }) => {
          await step.tx('book', async () => 1)
          return commit(() => 1)
        }),
      'step.tx',
    ],
    batched: [(o) => o.batched({ statement: () => ({ sql: '', values: [] }), respond: () => 1 }), 'has no batches'],
    'a batched route': [
      (o) => idempotency(o, { scope: 'global' }).batched({ statement: () => ({ sql: '', values: [] }) } as never),
      'has no batches',
    ],
    join: [
      (o) => o.join(undefined).run({ scope: 'a', key: 'k', input: 1 }, async () => 1),
      'has no transactions to join',
    ],
    relay: [(o) => o.relay({ to: inProcessSink(async () => {}) }), 'has no outbox'],
    outbox: [(o) => o.outbox, 'has no outbox'],
    resend: [(o) => o.resend({ since: new Date(0) }), 'has no outbox'],
    parked: [(o) => o.parked, 'has no outbox'],
    consumer: [(o) => o.consumer('c', { from: webhook() }, { push: async () => {} }), 'has no inbox'],
    deadLetters: [(o) => o.deadLetters, 'has no dead letters'],
    redrive: [(o) => o.redrive, 'has no redrives'],
    recover: [(o) => o.recover({}), 'cannot search for lapsed operations'],
    unknown: [(o) => o.unknown(), 'cannot search for unknown operations'],
    migrate: [(o) => o.migrate(), 'has nothing to migrate: do not call migrate()'],
    sweep: [(o) => o.sweep(), 'removes records by itself: do not call sweep()'],
  }

  it.each(Object.entries(attempts))('%s', async (_name, [attempt, sentence]) => {
    const refused = await Promise.resolve()
      .then(() => attempt(once))
      .then(
        () => 'it was not refused',
        (error: unknown) => error,
      )
    expect(refused).toMatchObject({ code: 'ONCE_UNSUPPORTED' })
    expect(String(refused)).toMatch(/^OnceError: ONCE_UNSUPPORTED The key store /)
    expect(String(refused)).toContain(sentence)
  })

  it('events and listening, at the start', () => {
    const events = { 'order.made': event<{ id: string }>(({ id }) => id) }
    const start = (options: object) => () =>
      effectivelyOnce({ namespace: 'shop', store: new KeyStore(), guard: 'off', ...options } as never)
    expect(start({ events })).toThrow('has no transactions to publish events in')
    expect(start({ listen: true })).toThrow('leave listen out')
  })
})

it('a consumer on a store without transactions needs a lease, and is refused at its start without one', () => {
  const leased = effectivelyOnce({ namespace: 'shop', store: new RowStore(), guard: 'off' })
  const start = (options: object) => () =>
    leased.consumer('c', { from: webhook(), ...options }, { push: async () => {} })
  expect(start({})).toThrow(
    "The key store has no transactions: give the consumer a lease, such as { lease: '30s' }, or use a SQL store",
  )
  expect(start({ lease: '5s' })).not.toThrow()
})

describe('features.transactional', () => {
  it('is honoured: what a store has beside it is not used', async () => {
    const memory = memoryStore()
    await memory.schema.migrate()
    const features = { ...memory.features, transactional: false }
    const plain = effectivelyOnce({ namespace: 'shop', store: { ...memory, features }, guard: 'off', sweep: false })
    const run = plain.run({ scope: 'a', key: 'k', input: 1 }, async () => 1)
    await expect(run).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
    expect(() => plain.consumer('c', { from: webhook() }, { push: async () => {} })).toThrow('has no inbox')
    expect(() => plain.outbox).toThrow('has no outbox')
    const leased = await plain.run(operation, ({ commit }) => commit(({ tx }) => tx === undefined))
    expect(leased).toBe(true)
    await plain.close()
  })

  it('is refused where nothing stands behind it', () => {
    const store = Object.assign(new KeyStore(), {
      features: { transactional: true, concurrentClaims: true, serverDeadline: false },
    })
    expect(() => effectivelyOnce({ namespace: 'shop', store })).toThrow('a store with transactions needs begin, open')
  })
})

it('the contract asks a store without transactions for its own part, and says why the rest is left out', async () => {
  const ran: string[] = []
  for (const { name, run } of storeContract(async () => ({ store: new KeyStore(), close: () => Promise.resolve() }))) {
    const result = await run()
    if (result) expect(result.skipped).toMatch(/\w+/)
    else ran.push(name)
  }
  expect(ran.length).toBeGreaterThan(15)
})

function storeOf(instance: Once<undefined, {}>): Store<undefined> {
  return (instance as unknown as { core: { store: Store<undefined> } }).core.store
}

function webhook(): never {
  return githubSource({ secret: 'a secret of the hook' }) as never
}
