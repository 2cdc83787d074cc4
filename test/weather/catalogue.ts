import pg from 'pg'
import { effectivelyOnce, event, type Duration, type Once, type Signal } from '../../src/index.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'

export interface Step {
  readonly aggregate: string
  readonly n: number
}

/** What the first version of the service knows. */
export const FIRST = {
  'order.moved': event<Step>(({ aggregate }) => aggregate, { ordered: true }),
}

/** The second one has another event. */
export const SECOND = {
  ...FIRST,
  'note.added': event<Step>(({ aggregate }) => aggregate, { ordered: true }),
}

export const NAMESPACE = 'weather'
export const CONSUMER = 'effects'
export const HOOK = 'hook'
/** A relay's shards are free for another one after this. */
export const RELAY_LEASE: Duration = '5s'
/** What a dead process held comes again after this, where the broker lets one say so. */
export const HOLDS_FOR: Duration = '5s'
/** A seventh of it is the age of a segment. */
export const RESEND_FOR: Duration = '140s'

/**
 * `orders` are the business rows, `effects` what consumers did: without a unique constraint, so that what happens twice
 * can be seen.
 */
export const TABLES = `
  create table aggregate (id text primary key, n int4 not null);
  create table orders (key text not null, event uuid not null, type text not null, aggregate text not null,
    n int4 not null, at timestamptz not null default clock_timestamp());
  create table effects (seq bigint generated always as identity, event uuid not null, aggregate text not null,
    n int4 not null, who text not null, at timestamptz not null default clock_timestamp());
  create index on orders (event);
  create index on effects (event)`

export type WeatherOnce = Once<PgTx<pg.PoolClient>, typeof SECOND>

export function openOnce(
  url: string,
  observe: (signal: Signal) => void,
  { events = SECOND, resendFor = RESEND_FOR }: { events?: typeof FIRST; resendFor?: Duration } = {},
): { readonly pool: pg.Pool; readonly once: WeatherOnce; close(): Promise<void> } {
  const pool = new pg.Pool({ connectionString: url, max: 12, connectionTimeoutMillis: 5_000 })
  pool.on('error', () => {})
  const once = effectivelyOnce({
    namespace: NAMESPACE,
    store: pgStore(pool),
    events: events as typeof SECOND,
    guard: 'off',
    deadline: '10s',
    resendFor,
    observe,
  })
  return {
    pool,
    once,
    async close() {
      await once.close()
      await pool.end()
    },
  }
}
