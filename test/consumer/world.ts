import pg from 'pg'
import { effectivelyOnce, event, type Once, type Signal, type SqlStore } from '../../src/index.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'

export const events = {
  'step.made': event<{ aggregate: string; n: number }>((step) => step.aggregate),
  'link.made': event<{ aggregate: string; n: number }>((link) => link.aggregate, { ordered: true }),
  'step.seen': event<{ id: string }>((step) => step.id),
}

export type ConsumerOnce = Once<PgTx<pg.PoolClient>, typeof events>

export interface World {
  readonly pool: pg.Pool
  readonly once: ConsumerOnce
  readonly signals: Signal[]
  /** How often each message was applied. */
  applied(): Promise<Map<string, number>>
  count(sql: string): Promise<number>
  close(): Promise<void>
}

/** A planted mistake in the store. */
export type Flaw = (store: SqlStore<PgTx<pg.PoolClient>>) => SqlStore<PgTx<pg.PoolClient>>

/** A service with a table of effects: one row per application of a message. */
export async function openWorld(
  url: string,
  max = 20,
  flaw: Flaw = (store) => store,
  pipeline = false,
): Promise<World> {
  const pool = new pg.Pool({ connectionString: url, max, application_name: String(process.pid), pipeline })
  pool.on('error', () => {})
  const signals: Signal[] = []
  const once = effectivelyOnce({
    namespace: 'consumer',
    store: flaw(pgStore(pool)),
    events,
    guard: 'off',
    sweep: false,
    observe: (signal) => void signals.push(signal),
  })
  await once.migrate()
  // Whoever is started in mid-run must not wait for the others' locks, nor they for its.
  const { rows } = await pool.query<{ there: boolean }>(`select to_regclass('applied_aggregate') is not null as there`)
  if (!rows[0]?.there) await pool.query(TABLE)
  return {
    pool,
    once,
    signals,
    async applied() {
      const { rows } = await pool.query<{ id: string; n: number }>(
        'select id, count(*)::int4 n from applied group by id',
      )
      return new Map(rows.map(({ id, n }) => [id, n]))
    },
    async count(sql) {
      const { rows } = await pool.query<{ n: number }>(`select count(*)::int4 n from ${sql}`)
      return rows[0]?.n ?? 0
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}

const TABLE = `create table if not exists applied (seq bigserial, id text not null, aggregate text, n int, before int,
    who text default current_setting('application_name'));
  create index if not exists applied_aggregate on applied (aggregate, n)`

/** The effect, with what it saw of its aggregate: what was committed before it, or ran before it in its transaction. */
export const INSERT = `insert into applied (id, aggregate, n, before)
  select $1::text, $2::text, $3::int, (select coalesce(max(n), 0) from applied where aggregate = $2::text)`

export async function until(condition: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('it did not happen in time')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
