import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import type { Once, SqlStore } from '../../src/index.ts'
import { tiered } from '../../src/tier/tiered.ts'
import type { CacheServer } from '../../src/tier/cache-server.ts'

export interface Charged {
  readonly key: string
  readonly nonce: string
}

/** One process of a shop, as far as its memory and its connections go. */
export interface Shop {
  readonly once: Once<pg.PoolClient, {}>
  /** How many answers came from the shared cache. */
  readonly hits: () => number
  charge(key: string, options: ChargeOptions): Promise<Charged>
  close(): Promise<void>
}

export interface ChargeOptions {
  /** How long the answer is kept. After that the key runs again. */
  readonly replayFor: '1h' | '2s'
  /** The transaction is rolled back at COMMIT, after the handler has answered. */
  readonly fails: boolean
  /** Told of each run, before its commit. */
  readonly ran: (nonce: string, fails: boolean) => void
}

export const TABLES = `
create table charge (key text not null, nonce text not null, at timestamptz not null default clock_timestamp());
create table doomed (id int4, constraint doomed_never unique (id) deferrable initially deferred)`

/** Opens a process on a migrated database. Without a cache it uses the database alone. */
export function openShop(database: string, cache: CacheServer | null): Shop {
  const pool = new pg.Pool({ connectionString: database, max: 16 })
  pool.on('error', () => {})
  let hits = 0
  const plain: SqlStore<pg.PoolClient> = pgStore(pool) as never
  const store = cache === null ? plain : tiered(plain, { cache })
  const once = effectivelyOnce({
    namespace: 'shop',
    store,
    guard: 'off',
    sweep: false,
    expired: 'rerun',
    observe: (signal) => {
      if (signal.kind === 'replayed' && signal.from === 'cache') hits += 1
    },
  })
  return {
    once,
    hits: () => hits,
    charge: (key, { replayFor, fails, ran }) =>
      once.run({ scope: 'shop', key, input: { key }, replayFor }, async ({ tx }) => {
        const nonce = randomUUID()
        ran(nonce, fails)
        await tx.query('insert into charge (key, nonce) values ($1, $2)', [key, nonce])
        // The constraint is checked at COMMIT.
        if (fails) await tx.query('insert into doomed values (1), (1)')
        return { key, nonce }
      }),
    close: async () => {
      await once.close()
      await pool.end()
    },
  }
}

/** Makes the tables of a new database. */
export async function prepareShop(database: string): Promise<void> {
  const shop = openShop(database, null)
  await shop.once.migrate()
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  await client.query(TABLES)
  await client.end()
  await shop.close()
}
