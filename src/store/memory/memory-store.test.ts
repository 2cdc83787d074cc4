import { describe, expect, test } from 'vitest'
import { effectivelyOnce } from '../../once/once.ts'
import { isOnceError } from '../../errors.ts'
import { memoryStore } from './memory-store.ts'
import { MemoryDatabase } from './database/database.ts'
import type { StepPoint } from './database/connection.ts'

const options = { namespace: 'test', guard: 'off', sweep: false } as const

describe('memoryStore', () => {
  test('an operation and its effect commit once', async () => {
    const store = memoryStore()
    const once = effectivelyOnce({ ...options, store })
    const run = (): Promise<{ n: number }> =>
      once.run({ scope: 'a', key: 'k-0123456789abcdef', input: 1 }, async ({ tx }) => {
        await tx.insert('charges', { amount: 5 })
        return { n: 1 }
      })
    expect(await run()).toEqual({ n: 1 })
    expect(await run()).toEqual({ n: 1 })
    expect(store.rows('charges')).toEqual([{ amount: 5 }])
  })

  test('two stores on one database are two processes', async () => {
    const database = new MemoryDatabase()
    const first = memoryStore({ database })
    const second = memoryStore({ database })
    await first.transaction(async (tx) => {
      await tx.insert('a', { n: 1 })
      expect(second.rows('a')).toEqual([])
    })
    expect(second.rows('a')).toEqual([{ n: 1 }])
  })

  test('a unique constraint waits for the other transaction, then refuses', async () => {
    const store = memoryStore({ unique: { users: ['name'] } })
    let second: Promise<unknown> = Promise.resolve()
    await store.transaction(async (tx) => {
      await tx.insert('users', { name: 'ann' })
      second = store.transaction((other) => other.insert('users', { name: 'ann' })).catch((error: unknown) => error)
      await new Promise((resolve) => setImmediate(resolve))
    })
    expect(await second).toMatchObject({ code: '23505' })
    expect(store.rows('users')).toHaveLength(1)
  })

  test('updates of one row wait for each other and see what the other wrote', async () => {
    const store = memoryStore()
    await store.transaction((tx) => tx.insert('accounts', { id: 1, balance: 100 }))
    const debit = (): Promise<unknown> =>
      store.transaction((tx) =>
        tx.update('accounts', { id: 1 }, (row) => ({ ...row, balance: Number(row['balance']) - 10 })),
      )
    await Promise.all([debit(), debit(), debit()])
    expect(store.rows('accounts')).toEqual([{ id: 1, balance: 70 }])
  })

  test('a savepoint also undoes the failure of a statement', () => {
    const database = new MemoryDatabase()
    const endOf = (undone: boolean): boolean => {
      const tx = database.begin({ interactive: true })
      tx.savepoint('s')
      tx.fail()
      if (undone) tx.rollbackTo('s')
      return tx.commit()
    }
    expect([endOf(true), endOf(false)]).toEqual([true, false])
  })

  test('a batched statement inserts a row, or updates the rows that match', async () => {
    const store = memoryStore()
    const once = effectivelyOnce({ ...options, store })
    const asked: [string, unknown[]][] = [
      ['insert into accounts', [{ id: 1, balance: 100 }]],
      ['update accounts', [{ id: 1 }, { balance: 90 }]],
    ]
    const change = once.batched<[string, unknown[]], number>({
      statement: ([sql, values]) => ({ sql, values }),
      respond: (rows) => rows.length,
    })
    for (const [key, input] of Object.entries(asked)) expect(await change({ scope: 'a', key, input })).toBe(1)
    expect(store.rows('accounts')).toEqual([{ id: 1, balance: 90 }])
    const unknown = change({ scope: 'a', key: 'k', input: ['delete from accounts', []] })
    await expect(unknown).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
  })

  test('who closes a circle of waits is the victim', async () => {
    const store = memoryStore()
    await store.transaction(async (tx) => {
      await tx.insert('t', { id: 1 })
      await tx.insert('t', { id: 2 })
    })
    const meet: (() => void)[] = []
    const both = (): Promise<void> =>
      new Promise((resolve) => (meet.push(resolve) === 2 ? meet.forEach((go) => go()) : null))
    const cross = (a: number, b: number): Promise<unknown> =>
      store.transaction(async (tx) => {
        await tx.update('t', { id: a }, { by: a })
        await both()
        await tx.update('t', { id: b }, { by: a })
      })
    const results = await Promise.allSettled([cross(1, 2), cross(2, 1)])
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: '40P01' } })
  })

  test('after a failed statement nothing but rollback works, and COMMIT is one', async () => {
    const store = memoryStore({ unique: { t: ['id'] } })
    await store.transaction((tx) => tx.insert('t', { id: 1 }))
    const outcome = await store
      .transaction(async (tx) => {
        await tx.insert('u', { lost: true })
        await tx.insert('t', { id: 1 }).catch(() => undefined)
        await expect(tx.rows('t')).rejects.toMatchObject({ code: '25P02' })
      })
      .catch((error: unknown) => error)
    expect(isOnceError(outcome, 'ONCE_ROLLED_BACK')).toBe(true)
    expect(store.rows('u')).toEqual([])
  })

  test('a lost reply to COMMIT leaves the effect and an unknown outcome', async () => {
    let lose = false
    const step = ({ label, at }: StepPoint): undefined => {
      if (lose && label === 'complete' && at === 'reply') throw new Error('cut')
    }
    const store = memoryStore({ step })
    const once = effectivelyOnce({ ...options, store })
    const run = (): Promise<number> =>
      once.run({ scope: 'a', key: 'k-0123456789abcdef', input: 1 }, async ({ tx }) => {
        await tx.insert('charges', {})
        return 7
      })
    lose = true
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_COMMIT_UNKNOWN' })
    lose = false
    expect(await run()).toBe(7)
    expect(store.rows('charges')).toHaveLength(1)
  })
})
