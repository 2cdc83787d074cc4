import { onceError } from '../errors.ts'
import { pgStore, type PoolLike, type PoolClientLike } from '../store/postgres/pg.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import type { Store } from '../store/store.ts'
import type { Arguments } from './arguments.ts'
import { UsageError } from './usage.ts'

export interface Opened {
  readonly store: Store<unknown>
  /** Where it is, without a password. */
  readonly where: string
  close(): Promise<void>
}

/** The store a URL names: the command line needs no user code. */
export async function openStore({ url, schema }: Pick<Arguments, 'url' | 'schema'>): Promise<Opened> {
  if (!url) throw new UsageError('no database: give --url postgres://… or set DATABASE_URL')
  if (/^postgres(?:ql)?:/i.test(url)) return openPostgres(url, schema)
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(url) && !/^(?:file|sqlite):/i.test(url)) {
    throw new UsageError(`'${url.split(':', 1)[0] ?? ''}' databases are not known; PostgreSQL and SQLite files are`)
  }
  if (schema !== undefined) throw new UsageError('--schema is for PostgreSQL')
  const store = sqliteStore({ file: url.replace(/^(?:file|sqlite):(?:\/\/)?/i, '') })
  return { store, where: url, close: () => store.close() }
}

async function openPostgres(url: string, schema: string | undefined): Promise<Opened> {
  const pool = new (await loadPool())({ connectionString: url, max: 4, connectionTimeoutMillis: 10_000 })
  const store = pgStore(pool, schema === undefined ? {} : { schema })
  return {
    store,
    where: withoutPassword(url),
    async close() {
      await store.close()
      await pool.end()
    },
  }
}

type Pool = new (options: object) => PoolLike<PoolClientLike> & { end(): Promise<void> }

/** `pg` is an optional peer: asked for by a name the compiler does not follow. */
async function loadPool(): Promise<Pool> {
  const name: string = 'pg'
  try {
    const loaded = (await import(name)) as { Pool?: Pool; default?: { Pool?: Pool } }
    const Pool = loaded.Pool ?? loaded.default?.Pool
    if (Pool) return Pool
  } catch (cause) {
    throw onceError('ONCE_PEER_MISSING', { detail: 'PostgreSQL needs the package pg. Run: npm i pg', cause })
  }
  throw onceError('ONCE_PEER_MISSING', { detail: 'The package pg has no Pool. Run: npm i pg@8' })
}

function withoutPassword(url: string): string {
  try {
    const { host, pathname } = new URL(url)
    return `${host}${pathname}`
  } catch {
    throw new UsageError('--url is not a URL')
  }
}
