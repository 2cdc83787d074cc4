import pg from 'pg'
import { effectivelyOnce, event, type Duration, type Once, type Signal } from '../../src/index.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'

export interface Step {
  readonly aggregate: string
  readonly n: number
}

/** The events that the first version of the service knows. */
export const FIRST = {
  'order.moved': event<Step>(({ aggregate }) => aggregate, { ordered: true }),
}

/** The second version adds one event. */
export const SECOND = {
  ...FIRST,
  'note.added': event<Step>(({ aggregate }) => aggregate, { ordered: true }),
}

export const NAMESPACE = 'weather'
export const CONSUMER = 'effects'
export const HOOK = 'hook'
/** After this time, another relay can lease the shards of a dead one. */
export const RELAY_LEASE: Duration = '5s'
/** After this time, the broker redelivers the messages of a dead process, where the broker's setting allows it. */
export const HOLDS_FOR: Duration = '5s'
/** The age of a segment is a seventh of this. */
export const RESEND_FOR: Duration = '140s'

/**
 * `orders` holds the business rows, and `effects` the effects of consumers. `effects` has no unique constraint, so that
 * a duplicate effect is visible.
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
