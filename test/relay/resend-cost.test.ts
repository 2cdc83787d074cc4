import pg from 'pg'
import { expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { describePostgres } from '../support/postgres.ts'

interface Step {
  readonly aggregate: string
  readonly n: number
}

const EVENTS = 3_000
const AGGREGATES = 20
const PER_OPERATION = 100
/** What reading, settling and promoting one event may touch, everything counted. With a join it was 1,111. */
const BLOCKS_PER_EVENT_MAX = 200
const STATISTICS_MS = 1_500

describePostgres('the cost of a resend', (database) => {
  // A promoted standby, and any server soon after a resend, has no statistics of the held events.
  it('does not grow with the square of its events where the table has no statistics', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 5 })
    const events = { 'step.made': event<Step>(({ aggregate }) => aggregate) }
    const once = effectivelyOnce({ namespace: 'resend cost', store: pgStore(pool), events, guard: 'off' })
    try {
      await once.migrate()
      await pool.query('alter table effectively_once.held set (autovacuum_enabled = false)')
      for (let from = 0; from < EVENTS; from += PER_OPERATION) {
        await once.run({ scope: 's', key: `key ${from}`, input: null }, async ({ publish }) => {
          for (let n = from; n < from + PER_OPERATION; n++)
            await publish('step.made', { aggregate: `order-${n % AGGREGATES}`, n })
        })
      }
      const relay = once.relay({ to: inProcessSink(() => {}, { name: 'resend cost' }) })
      expect(await relay.drain()).toBe(EVENTS)
      const before = await blocks(pool)
      expect(await once.resend({ since: new Date(0), destination: 'resend cost' })).toBe(EVENTS)
      expect(await relay.drain()).toBe(EVENTS)
      const touched = (await blocks(pool)) - before
      expect(touched / EVENTS).toBeLessThan(BLOCKS_PER_EVENT_MAX)
    } finally {
      await once.close()
      await pool.end()
    }
  })
})

/** Of this database alone. The server writes its statistics down a second after the work. */
async function blocks(pool: pg.Pool): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, STATISTICS_MS))
  const { rows } = await pool.query<{ n: string }>(
    `select blks_hit + blks_read as n from pg_stat_database where datname = current_database()`,
  )
  return Number(rows[0]?.n)
}
