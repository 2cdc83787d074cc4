import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce, type Once } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
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
