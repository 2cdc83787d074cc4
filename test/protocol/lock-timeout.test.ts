import pg from 'pg'
import { expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, event } from '../../src/index.ts'
import { later, outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'

const events = { 'note.made': event<{ to: string }>(({ to }) => to) }

describePostgres('a lock_timeout of the role', (database) => {
  it('that ends a statement of ours is a conflict: run again, and told as one after the last run', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 4, options: '-c lock_timeout=300ms' })
    pool.on('error', () => {})
    const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), events, guard: 'off', sweep: false })
    await once.migrate()
    /** Somebody publishes to anna, and takes a while to commit. */
    const holding = async (ms: number, meanwhile: () => Promise<string>): Promise<string> => {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await once.join(client).publish('note.made', { to: 'anna' })
        const told = meanwhile()
        await Promise.race([told, later(ms)])
        await client.query('commit')
        return await told
      } finally {
        client.release()
      }
    }
    const run = (key: string): Promise<string> =>
      outcomeOf(once.run({ scope: 'u', key, input: 1 }, ({ publish }) => publish('note.made', { to: 'anna' })))
    const note = once.batched({
      statement: () => ({ sql: 'select 1', values: [] }),
      respond: (_rows, _input: number, { publish }) => publish('note.made', { to: 'anna' }),
    })
    await run('first of all')
    expect(await holding(400, () => run('waits'))).toBe('value')
    expect(await holding(400, () => outcomeOf(note({ scope: 'u', key: 'waits too', input: 1 })))).toBe('value')
    expect(await holding(20_000, () => run('waits in vain'))).toBe('ONCE_CONFLICT')
    const { rows } = await pool.query(`select count(*)::int4 as n from effectively_once.event`)
    expect(rows).toEqual([{ n: 6 }])
    await once.close()
    await pool.end()
  })
})
