import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, type Once } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeClients } from '../support/stores.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>

describeClients('an operation of another store, joined to the transaction of an operation', (place) => {
  let shop: AnyOnce
  let other: AnyOnce
  const counts = (...keys: string[]): Promise<number[]> => Promise.all(keys.map((key) => countCharges(place, key)))
  /** Writes a charge, waits, writes another one. */
  const joined = (tx: unknown, key: string, wait: () => unknown = () => {}): Promise<unknown> =>
    other.join(tx).run({ scope: 'u', key, input: key }, async (op) => {
      await insertCharge(place, op.tx, key)
      await wait()
      await insertCharge(place, op.tx, key)
      return 'done'
    })

  beforeAll(async () => {
    shop = place.once()
    // oxlint-disable-next-line no-explicit-any -- as above
    const store = place.bed.other as SqlStore<any>
    other = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false })
    await other.migrate()
  })
  afterAll(() => other.close())

  it('takes its turn: it is not rolled back with a run beside it', async () => {
    let answer: unknown
    await shop.run({ scope: 'u', key: 'beside', input: 1 }, async ({ tx }) => {
      const failing = shop.run({ scope: 'u', key: 'fails', input: 1 }, async (op) => {
        await insertCharge(place, op.tx, 'fails')
        await later(50)
        throw new TypeError('rolled back')
      })
      const join = later(10).then(async () => (answer = await joined(tx, 'beside it')))
      await Promise.allSettled([failing, join])
      return 'done'
    })
    expect([answer, ...(await counts('fails', 'beside it'))]).toEqual(['done', 0, 2])
  })

  it('is waited for, awaited or not, and never reaches the transaction of somebody else', async () => {
    let join: Promise<unknown> = Promise.resolve()
    await shop.run({ scope: 'u', key: 'does not await', input: 1 }, async ({ tx }) => {
      join = outcomeOf(joined(tx, 'not awaited', () => later(20)))
      return 'done'
    })
    const next = await shop.run({ scope: 'u', key: 'next', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'next')
      await later(30)
      return 'done'
    })
    expect([next, await join]).toEqual(['done', 'value'])
    expect(await counts('not awaited', 'next')).toEqual([2, 1])
  })

  it('may run an operation of the first store, and use the first handle', async () => {
    await shop.run({ scope: 'u', key: 'there and back', input: 1, deadline: '3s' }, async ({ tx }) => {
      await joined(tx, 'there', async () => {
        await insertCharge(place, tx, 'first handle')
        await shop.run({ scope: 'u', key: 'back', input: 1 }, (op) => insertCharge(place, op.tx, 'back'))
      })
    })
    expect(await counts('there', 'back', 'first handle')).toEqual([2, 1, 1])
  })

  it('waits for what it runs in the first store, awaited or not', async () => {
    let back: Promise<unknown> = Promise.resolve()
    const ways = { scope: 'u', key: 'back, not awaited', input: 1 }
    await shop.run({ scope: 'u', key: 'waits for it', input: 1 }, ({ tx }) =>
      joined(tx, 'there, awaited', () => {
        back = shop.run(ways, async (op) => {
          await insertCharge(place, op.tx, 'back, not awaited')
          await later(20)
          return 'done'
        })
      }),
    )
    expect(await back).toBe('done')
    expect(await shop.run(ways, () => Promise.resolve('ran twice'))).toBe('done')
    expect(await counts('there, awaited', 'back, not awaited')).toEqual([2, 1])
  })

  it('ends with the operation at its deadline, and commits nothing', async () => {
    let join: Promise<unknown> = Promise.resolve()
    const late = shop.run({ scope: 'u', key: 'late', input: 1, deadline: '200ms' }, async ({ tx }) => {
      join = outcomeOf(joined(tx, 'joined late', () => later(400)))
      await join
    })
    expect(await outcomeOf(late)).toBe('ONCE_DEADLINE')
    await shop.run({ scope: 'u', key: 'after the late one', input: 1 }, async ({ tx }) => {
      await later(400)
      await insertCharge(place, tx, 'after the late one')
    })
    expect(await join).toBe('ONCE_DEADLINE')
    expect(await counts('joined late', 'after the late one')).toEqual([0, 1])
  })

  it('takes what it runs in the first store back with it, at its own deadline', async () => {
    let back: Promise<unknown> = Promise.resolve()
    let begunLate: Promise<unknown> = Promise.resolve()
    const run = (key: string, handler: (op: { tx: unknown }) => Promise<unknown>): Promise<unknown> =>
      outcomeOf(shop.run({ scope: 'u', key, input: 1 }, handler))
    const told = await shop.run({ scope: 'u', key: 'outlives its guest', input: 1 }, async ({ tx }) => {
      const late = { scope: 'u', key: 'late guest', input: 1, deadline: '150ms' } as const
      const guest = outcomeOf(
        other.join(tx).run(late, async () => {
          back = run('back, late', async (op) => {
            for (;;) await insertCharge(place, op.tx, 'back, late')
          })
          await back
          begunLate = run('begun late', (op) => insertCharge(place, op.tx, 'begun late'))
          await begunLate
        }),
      )
      const outcome = await guest
      await later(50)
      return outcome
    })
    expect([told, await back, await begunLate]).toEqual(['ONCE_DEADLINE', 'ONCE_DEADLINE', 'ONCE_DEADLINE'])
    expect(await counts('back, late', 'begun late')).toEqual([0, 0])
  })

  it('takes turns with what it runs in the first store', async () => {
    const fails = (once: AnyOnce, key: string): Promise<unknown> =>
      once.run({ scope: 'u', key, input: 1 }, async (op) => {
        await insertCharge(place, op.tx, key)
        await later(60)
        throw new TypeError('rolled back')
      })
    const passes = (once: AnyOnce, key: string): Promise<unknown> =>
      later(20).then(() =>
        once.run({ scope: 'u', key, input: 1 }, async (op) => {
          await insertCharge(place, op.tx, key)
          await later(60)
          await insertCharge(place, op.tx, key)
        }),
      )
    const guest = (key: string, work: (tx: unknown) => Promise<unknown>[]): Promise<string> =>
      outcomeOf(
        shop.run({ scope: 'u', key: `around ${key}`, input: 1, deadline: '3s' }, ({ tx }) =>
          other.join(tx).run({ scope: 'u', key, input: 1 }, async (op) => {
            await Promise.allSettled(work(op.tx))
          }),
        ),
      )
    const told = [
      await guest('a', (tx) => [fails(shop, 'a fails'), later(20).then(() => insertCharge(place, tx, 'a writes'))]),
      await guest('b', () => [fails(shop, 'b fails'), passes(other, 'b passes')]),
      await guest('c', () => [fails(other, 'c fails'), passes(shop, 'c passes')]),
      await guest('d', (tx) => [
        shop.run({ scope: 'u', key: 'd inner', input: 1 }, async () => insertCharge(place, tx, 'd writes')),
      ]),
      await guest('e', (tx) => [
        fails(shop, 'e fails'),
        shop.join(tx).run({ scope: 'u', key: 'e joins', input: 1 }, (op) => insertCharge(place, op.tx, 'e joins')),
      ]),
    ]
    expect(told).toEqual(['value', 'value', 'value', 'value', 'value'])
    expect(await counts('e fails', 'e joins')).toEqual([0, 1])
    expect(await counts('a fails', 'a writes', 'b fails', 'b passes')).toEqual([0, 1, 0, 2])
    expect(await counts('c fails', 'c passes', 'd writes')).toEqual([0, 2, 1])
  })

  it("joins the user's transaction inside an operation that joined it, and beside one in its turn", async () => {
    const inside = (tx: unknown, key: string, work: () => unknown): Promise<unknown> =>
      shop.join(tx).run({ scope: 'u', key, input: key, deadline: '3s' }, async (op) => {
        await insertCharge(place, op.tx, key)
        await work()
        return 'done'
      })
    const answers = await place.bed.own(async (tx) =>
      Promise.all([
        outcomeOf(inside(tx, 'holds the turn', () => joined(tx, 'through the same object', () => later(20)))),
        outcomeOf(
          inside(tx, 'fails with its guest', () => joined(tx, 'guest').then(() => Promise.reject(new Error('no')))),
        ),
        outcomeOf(joined(tx, 'beside them')),
      ]),
    )
    expect(answers).toEqual(['value', 'Error', 'value'])
    const keys = ['holds the turn', 'through the same object', 'fails with its guest', 'guest', 'beside them']
    expect(await counts(...keys)).toEqual([1, 2, 0, 0, 2])
  })
})

describePostgres('two stores of one schema', (database) => {
  it('leave nobody with a memory of what was rolled back', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 4 })
    pool.on('error', () => {})
    const [first, second] = [1, 2].map(() =>
      effectivelyOnce({ namespace: 'test', store: pgStore(pool), guard: 'off', sweep: false }),
    ) as [AnyOnce, AnyOnce]
    await first.migrate()
    await pool.query('create table paid (key text)')
    const pay = (once: AnyOnce): Promise<unknown> =>
      once.run({ scope: 'u', key: 'paid', input: 1 }, async ({ tx }) => {
        await tx.query("insert into paid values ('paid')")
      })
    await first.run({ scope: 'u', key: 'forgives', input: 1 }, async ({ tx }) => {
      const guest = second.join(tx).run({ scope: 'u', key: 'fails after both', input: 1 }, async () => {
        await pay(second)
        await pay(first)
        throw new TypeError('rolled back')
      })
      expect(await outcomeOf(guest)).toBe('TypeError')
    })
    await pay(first)
    expect((await pool.query('select * from paid')).rowCount).toBe(1)
    await Promise.all([first.close(), second.close()])
    await pool.end()
  })
})
