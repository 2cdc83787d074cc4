import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { TABLES } from './catalogue.ts'
import { isSilent, judge, pending, type Evidence, type Rows, type Verdict } from './verifier.ts'
import { Journal, lineOf, named } from './violations.ts'

const AGGREGATES = ['a', 'b']
const STEPS = 5

interface Planted {
  readonly id: string
  readonly aggregate: string
  readonly n: number
}

describePostgres('the verifier of the weather', (database) => {
  let client: pg.Client
  let orders: Planted[]
  const rows: Rows = async (text, values) => (await client.query(text, values)).rows
  const counts = async (evidence: Evidence): Promise<Verdict> => {
    const { violations, ...verdict } = await judge(rows, evidence)
    // Every violation is listed by name.
    expect(violations).toHaveLength(verdict.lost + verdict.twice + verdict.orderBreaks)
    return verdict
  }

  beforeAll(async () => {
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
    await client.query(TABLES)
  })
  afterAll(() => client.end())
  beforeEach(async () => {
    await client.query('truncate orders, effects')
    orders = AGGREGATES.flatMap((aggregate) =>
      Array.from({ length: STEPS }, (_, i) => ({ id: randomUUID(), aggregate, n: i + 1 })),
    )
    for (const { id, aggregate, n } of orders) {
      const values = [`key ${id}`, id, 'order.moved', aggregate, n]
      await client.query('insert into orders (key, event, type, aggregate, n) values ($1, $2, $3, $4, $5)', values)
    }
  })

  async function apply(planted: readonly Planted[]): Promise<void> {
    for (const { id, aggregate, n } of planted) {
      const values = [id, aggregate, n, 'test']
      await client.query('insert into effects (event, aggregate, n, who) values ($1, $2, $3, $4)', values)
    }
  }

  const seen = (planted: readonly Planted[], dropped: readonly string[] = []): Evidence => ({
    hook: new Map(planted.map(({ id, aggregate }) => [id, { aggregate, at: 0, by: 'test' }])),
    dropped: new Set(dropped),
  })
  /** The third and the fourth event of the first aggregate are swapped. */
  const swapped = (): Planted[] => [...orders.slice(0, 2), orders[3]!, orders[2]!, ...orders.slice(4)]
  const CLEAN = { events: 10, lost: 0, twice: 0, orderBreaks: 0 }

  it('has nothing against a clean run', async () => {
    await apply(orders)
    expect(await counts(seen(orders))).toEqual(CLEAN)
  })

  describe('tells a lost event', () => {
    it('that was not applied', async () => {
      await apply(orders.slice(1))
      expect(await counts(seen(orders))).toEqual({ ...CLEAN, lost: 1 })
    })
    it('that the sink never saw', async () => {
      await apply(orders)
      expect(await counts(seen(orders.slice(0, -1)))).toEqual({ ...CLEAN, lost: 1 })
    })
    it('once, where both are missing', async () => {
      await apply(orders.slice(1))
      expect(await counts(seen(orders.slice(1)))).toEqual({ ...CLEAN, lost: 1 })
    })
  })

  describe('tells what happened twice', () => {
    it('an effect, for every time too many', async () => {
      await apply([...orders, orders[4]!, orders[4]!, orders[9]!])
      expect(await counts(seen(orders))).toEqual({ ...CLEAN, twice: 3 })
    })
    it('an operation', async () => {
      await apply(orders)
      await client.query('insert into orders select * from orders where event = $1', [orders[0]!.id])
      expect(await counts(seen(orders))).toEqual({ ...CLEAN, events: 11, twice: 1 })
    })
  })

  describe('tells a swapped event', () => {
    it('of effects', async () => {
      await apply(swapped())
      expect(await counts(seen(orders))).toEqual({ ...CLEAN, orderBreaks: 1 })
    })
    it('of calls', async () => {
      await apply(orders)
      expect(await counts(seen(swapped()))).toEqual({ ...CLEAN, orderBreaks: 1 })
    })
    it('but not a late duplicate, nor two aggregates side by side', async () => {
      const side = [...orders].sort((a, b) => a.n - b.n)
      await apply([...side, orders[0]!])
      expect(await counts(seen(side))).toEqual({ ...CLEAN, twice: 1 })
    })
  })

  it('names each of them, with its neighbours and the faults at the time', async () => {
    await apply(swapped())
    const journal = new Journal()
    journal.begin('deploy').on('relay-1')
    const { violations } = await judge(rows, seen(orders.slice(1)))
    const [first, , third] = orders.map(({ id }) => id)
    const told = named(violations, journal)
    expect(told).toMatchObject([
      { kind: 'lost', where: 'hook', event: first, aggregate: 'a', n: 1 },
      { kind: 'orderBreak', where: 'effects', event: third, aggregate: 'a', n: 3 },
    ])
    expect(told[1]?.seen.map((line) => line.slice(0, 3))).toEqual(['n 1', 'n 2', 'n 4', 'n 3', 'n 5'])
    expect(lineOf(told[1]!)).toMatch(/^orderBreak in effects a n 3 .* #2 .*; faults: deploy on relay-1 /)
  })

  it('holds against nobody what a failover dropped', async () => {
    const gone = { id: randomUUID(), aggregate: 'a', n: 6 }
    await apply([gone, ...swapped()])
    expect(await counts(seen([gone, ...orders], [orders[2]!.id]))).toEqual(CLEAN)
  })

  it('tells what is waited for, in a part of the time', async () => {
    await apply(orders.slice(2))
    const all = { since: new Date(0), until: new Date(Date.now() + 60_000) }
    const hook = seen(orders.slice(1)).hook
    const [first, second] = orders.map(({ id }) => id)
    expect(await pending(rows, hook, all)).toEqual({ effects: [first, second], calls: [first] })
    expect(await pending(rows, hook, { ...all, type: 'note.added' })).toEqual({ effects: [], calls: [first] })
    expect(await pending(rows, hook, { ...all, until: new Date(0) })).toEqual({ effects: [], calls: [] })
  })
})

describe('a silent process', () => {
  const [now, bound] = [1_000_000, 40_000]
  const at = (progressedAgo: number, toldAgo = Infinity) => ({
    progressedAt: now - progressedAgo,
    toldAt: now - toldAgo,
  })

  it('does nothing for the bound while others work, and says nothing', () => {
    expect(isSilent(at(bound + 1), [at(1_000)], now, bound)).toBe(true)
    expect(isSilent(at(bound + 1, bound + 1), [at(1_000)], now, bound)).toBe(true)
  })
  it('is none that works, that tells its trouble, or that has nothing to do', () => {
    expect(isSilent(at(bound - 1), [at(1_000)], now, bound)).toBe(false)
    expect(isSilent(at(bound + 1, 5_000), [at(1_000)], now, bound)).toBe(false)
    expect(isSilent(at(bound + 1), [at(bound + 1)], now, bound)).toBe(false)
  })
})
