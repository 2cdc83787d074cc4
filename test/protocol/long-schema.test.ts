import { afterAll, beforeAll, expect, it } from 'vitest'
import pg from 'pg'
import { effectivelyOnce, event } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { later } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'

const EVENTS = { made: event<{ id: string }>(({ id }) => id) }

describePostgres('schemas with the longest names', (database) => {
  const pools: pg.Pool[] = []
  /** One connection for all: what one schema prepares, the other finds. */
  let pool: pg.Pool
  beforeAll(() => {
    pool = new pg.Pool({ connectionString: database.url, max: 1 })
    pools.push(pool)
  })
  afterAll(() => Promise.all(pools.map((each) => each.end())))

  it.each([56, 60, 63])('of %i characters are kept apart, also on one connection', async (length) => {
    const open = (tenant: string) => {
      const schema = `${'t'.repeat(length - 1)}${tenant}`
      const store = pgStore(pool, { schema })
      return {
        schema,
        store,
        once: effectivelyOnce({ namespace: 'n', store, events: EVENTS, guard: 'off', sweep: false }),
      }
    }
    const tenants = ['a', 'b'].map(open)
    for (const { once } of tenants) await once.migrate()
    for (const round of [1, 2]) {
      for (const { once, schema } of tenants) {
        await once.run({ scope: 's', key: `k${round}`, input: 1 }, async ({ publish }) => {
          await publish('made', { id: schema })
          return schema
        })
        const add = once.batched({ statement: () => ({ sql: 'select 1 as one', values: [] }), respond: () => schema })
        expect(await add({ scope: 's', key: `b${round}`, input: 1 })).toBe(schema)
      }
    }
    const heard: string[] = []
    const deaf = await Promise.all(
      tenants.map(({ schema, store }) =>
        store.outbox.calls!.listen({ called: () => void heard.push(schema), lost: () => {} }),
      ),
    )
    await tenants[0]!.store.outbox.calls!.call()
    while (heard.length === 0) await later(10)
    await later(50)
    expect(heard).toEqual([tenants[0]!.schema])
    for (const stop of deaf) await stop()
    for (const { once, schema } of tenants) {
      const { rows } = await pool.query<{ n: number }>(`select count(*)::int4 n from "${schema}".record`)
      expect(rows[0]!.n).toBe(4)
      await once.close()
    }
  })
})
