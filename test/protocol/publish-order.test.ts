import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, event, type Signal } from '../../src/index.ts'
import { shardOf } from '../../src/outbox/publisher.ts'
import { outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'
import { inTransaction } from '../support/transaction.ts'

const events = {
  'note.made': event<{ to: string }>(({ to }) => to),
  'note.ordered': event<{ to: string }>(({ to }) => to, { ordered: true }),
}

/** Two aggregates, of two shards. */
const ORDERS = [
  ['anna', 'bert'],
  ['bert', 'anna'],
] as const

describePostgres('publishers that lock two shards', (database) => {
  let pool: pg.Pool
  let once: ReturnType<typeof open>
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const open = () =>
    effectivelyOnce({ namespace: 'test', store: pgStore(pool), events, guard: 'off', sweep: false, observe })
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 10, options: '-c deadlock_timeout=20ms' })
    once = open()
    await once.migrate()
    for (const to of ORDERS[0]) await inTransaction(pool, (tx) => once.join(tx).publish('note.made', { to }))
  })
  afterAll(async () => {
    await once.close()
    await pool.end()
  })

  /** Two transactions of the user's own; neither publishes its second event before both have published their first. */
  async function both(
    orders: readonly (readonly [string, string])[],
    publish: (tx: pg.PoolClient, to: string) => Promise<unknown>,
  ): Promise<string[]> {
    let waiting = orders.length
    let go: () => void = () => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const told = orders.map(([first, second]) =>
      inTransaction(pool, async (tx) => {
        await publish(tx, first)
        if (--waiting === 0) go()
        await gate
        await publish(tx, second)
      }),
    )
    return (await Promise.all(told.map(outcomeOf))).toSorted()
  }

  it('in transactions of your own, the other way round: one of them is a conflict', async () => {
    expect(new Set(ORDERS[0].map((to) => shardOf(to))).size).toBe(2)
    const joined = both(ORDERS, (tx, to) => once.join(tx).publish('note.made', { to }))
    expect(await joined).toEqual(['ONCE_CONFLICT', 'value'])
    let key = 0
    const runs = both(ORDERS, (tx, to) =>
      once
        .join(tx)
        .run({ scope: 'u', key: `joined ${key++}`, input: 1 }, ({ publish }) => publish('note.made', { to })),
    )
    expect(await runs).toEqual(['ONCE_CONFLICT', 'value'])
  })

  it('in operations: never, whatever the order of their events', async () => {
    const publishing = (n: number): Promise<unknown> =>
      once.run({ scope: 'u', key: `run ${n}`, input: 1 }, async ({ publish }) => {
        const [first, second] = ORDERS[n % 2] as readonly [string, string]
        await publish('note.made', { to: first })
        await once.run({ scope: 'u', key: `inside ${n}`, input: 1 }, (inner) =>
          inner.publish(n % 3 === 0 ? 'note.ordered' : 'note.made', { to: second }),
        )
      })
    for (let round = 0; round < 20; round++) {
      await Promise.all(Array.from({ length: 8 }, (_, i) => publishing(round * 8 + i)))
    }
    expect(signals.filter(({ kind }) => kind === 'rerun')).toEqual([])
  })
})
