import { afterEach, describe, expect, it } from 'vitest'
import * as mistakes from '../../test/support/guard-mistakes.ts'
import { openShop, type Shop } from '../../test/support/guard-shop.ts'
import { describePostgres } from '../../test/support/postgres.ts'
import { final } from '../operation/final.ts'
import { watchBypasses } from './bypass.ts'

const PLACE = /\(test\/support\/guard-mistakes\.ts:\d+\)/

it('a call without a place in the program is told by its words, where they say something', () => {
  let call = (_: { words: string; starved: boolean; total: number }): void => {}
  const watch = { bypass: (listener: typeof call) => ((call = listener), () => {}) }
  const actions: string[] = []
  const watched = { bypassed: ({ action }: { action: string }) => void actions.push(action) }
  watchBypasses(watch, { current: () => ({ route: 'charge', watched }) } as never)
  for (const words of ['connect', '', 'select 1']) call({ words, starved: false, total: 2 })
  expect(actions).toEqual(['took a connection from the pool', 'queried the pool', 'queried the pool ("select 1")'])
})

describePostgres('bypass', (database) => {
  let shop: Shop
  const open = async (...args: Parameters<typeof openShop> extends [string, ...infer Rest] ? Rest : never) => {
    shop = await openShop(database.url, ...args)
    return shop
  }
  afterEach(() => shop.close())

  let keys = 0
  const operation = (input: unknown = ++keys) => ({ scope: 'global', key: `key-${++keys}`, input })

  it.each([
    ['pool.query', mistakes.queryThePool, `queried the pool (${mistakes.placeOf('await pool.query')})`],
    [
      'pool.connect',
      mistakes.takeAConnection,
      `took a connection from the pool (${mistakes.placeOf('pool.connect()')})`,
    ],
    ['Drizzle on it', mistakes.insertWithDrizzle, 'queried the pool ("insert into "charges" ("id") values ($1)")'],
    ['Kysely on it', mistakes.insertWithKysely, `took a connection from the pool (${mistakes.placeOf('.execute()')})`],
  ])('names the place of %s, when nothing went through tx', async (_name, mistake, action) => {
    const { once, pool, warnings, signals, charges } = await open()
    await once.run(operation(), async function charge() {
      await mistake(pool, 1)
    })
    const told = await warnings()
    expect(told).toEqual([{ code: 'ONCE_TX_BYPASSED', line: expect.stringContaining(action) }])
    expect(told[0]?.line).toMatch(
      /^charge .* Only tx commits with the key; after a crash the retry repeats this\. Use tx$/,
    )
    expect(signals).toEqual(told)
    expect(await charges()).toEqual([1])
  })

  it('is a note when rows went through tx as well', async () => {
    const { once, pool, warnings } = await open({ guard: 'throw' })
    await once.run(operation(), async function charge({ tx }) {
      await tx.query('insert into charges values (1)')
      await mistakes.queryThePool(pool, 2)
    })
    expect(await warnings()).toEqual([
      { code: 'ONCE_TX_BYPASSED', line: expect.stringMatching(/outside tx: .*Use tx$/) },
    ])
  })

  it('warns once per route and place', async () => {
    const { once, pool, warnings } = await open()
    for (let id = 0; id < 3; id++) {
      await once.run(operation(), async function charge() {
        await mistakes.queryThePool(pool, id)
      })
    }
    await once.run(operation(), async function refund() {
      await mistakes.queryThePool(pool, 10)
      await mistakes.queryThePool(pool, 11)
      await mistakes.takeAConnection(pool, 12)
    })
    expect((await warnings()).map(({ line }) => line.replace(PLACE, '').split('.')[0])).toEqual([
      'charge queried the pool ',
      'refund queried the pool ',
      'refund took a connection from the pool ',
    ])
  })

  it('fails the operation in mode throw, every time, and nothing of tx stays', async () => {
    const { once, pool, warnings, signals, charges } = await open({ guard: 'throw' })
    const charge = async (): Promise<void> => mistakes.queryThePool(pool, ++keys)
    const request = operation()
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(once.run(request, charge)).rejects.toMatchObject({
        code: 'ONCE_TX_BYPASSED',
        message: expect.stringMatching(/^ONCE_TX_BYPASSED charge queried the pool \(test/),
      })
    }
    // What reached the pool is there twice: this is what the guard is about.
    expect(await charges()).toHaveLength(2)
    expect(await warnings()).toEqual([])
    expect(signals).toHaveLength(1)
  })

  it('leaves the program alone outside of operations', async () => {
    const { once, pool, warnings } = await open({ guard: 'throw' })
    let later: Promise<void> | undefined
    await once.run(operation(), async ({ tx }) => {
      await tx.query('insert into charges values (1)')
      later = new Promise((resolve) => setTimeout(resolve, 50)).then(() => mistakes.queryThePool(pool, 2))
    })
    await later
    await mistakes.queryThePool(pool, 3)
    await once.run({ ...operation(), lease: '5s' }, async ({ step, commit }) => {
      await mistakes.queryThePool(pool, 4)
      await step('log', () => mistakes.queryThePool(pool, 5))
      return commit(({ tx }) => tx.query('insert into charges values (6)').then(() => 'done'))
    })
    expect(await warnings()).toEqual([])
  })

  it('sees the final transaction of a leased operation, and a nested operation under its own name', async () => {
    const { once, pool, warnings } = await open()
    await once.run({ ...operation(), lease: '5s' }, async function leased({ commit }) {
      return commit(() => mistakes.queryThePool(pool, 1))
    })
    await once.run(operation(), async function outer({ tx }) {
      await tx.query('insert into charges values (2)')
      await once.run(operation(), async function inner() {
        await mistakes.queryThePool(pool, 3)
      })
    })
    expect((await warnings()).map(({ line }) => line.split(' ')[0])).toEqual(['leased', 'inner'])
  })

  it.each(['refuses', 'fails'])('says that it stays when the handler %s', async (how) => {
    const { once, pool, warnings } = await open({ guard: 'throw' })
    const error = how === 'refuses' ? final({ status: 402 }) : new Error('no')
    const run = once.run(operation(), async function charge() {
      await mistakes.queryThePool(pool, 1)
      throw error
    })
    await expect(run).rejects.toThrow(error.message)
    expect(await warnings()).toEqual([{ code: 'ONCE_TX_BYPASSED', line: expect.stringContaining('outside tx') }])
  })

  describe('a pool that is used up', () => {
    const STARVED = /^charge queried the pool \(test.*\) while it holds the only connection: .*Use tx$/

    it('is told at once, because the operation may never end', async () => {
      const { once, pool, warnings } = await open({ deadline: '200ms' }, { max: 1 })
      const run = once.run(operation(), async function charge() {
        await mistakes.queryThePool(pool, 1)
      })
      await expect(run).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
      expect((await warnings())[0]).toEqual({ code: 'ONCE_POOL_STARVED', line: expect.stringMatching(STARVED) })
    })

    it.each([true, false])('fails the call itself in mode throw; swallowed: %s', async (swallowed) => {
      const { once, pool, warnings, charges } = await open({ guard: 'throw' }, { max: 1 })
      const run = once.run(operation(), async function charge({ tx }) {
        await tx.query('insert into charges values (7)')
        await mistakes.queryThePool(pool, 1).catch((error: unknown) => {
          if (!swallowed) throw error
        })
      })
      await expect(run).rejects.toMatchObject({ code: 'ONCE_POOL_STARVED' })
      expect(await charges()).toEqual([])
      expect(await warnings()).toEqual([])
    })

    it('is none of the guard itself: a pool of one is enough', async () => {
      const { once, warnings, charges } = await open({ guard: 'warn' }, { max: 1, connectionTimeoutMillis: 5_000 })
      const ids = Array.from({ length: 20 }, (_, id) => id)
      await Promise.all(
        ids.map((id) =>
          once.run(operation(), async ({ tx }) => {
            await tx.query('insert into charges values ($1)', [id])
          }),
        ),
      )
      expect(await charges()).toEqual(ids)
      expect(await warnings()).toEqual([])
    })
  })
})
