import { existsSync } from 'node:fs'
import { onceError } from '../errors.ts'
import type { Observe } from '../observe/signal.ts'
import { createOnce } from '../once/once.ts'
import { systemParts } from '../operation/parts.ts'
import type { Once } from '../once/types.ts'
import { pgStore, type PoolLike, type PoolClientLike } from '../store/postgres/pg.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import type { Row, SqlStore } from '../store/store.ts'
import type { Arguments } from './arguments.ts'
import { namespaceOf } from './namespace.ts'
import { loadPeer } from './peer.ts'
import { UsageError } from './usage.ts'

export interface Opened {
  readonly store: SqlStore<unknown>
  readonly once: Once<unknown, {}>
  /** The location of the database, without a password. */
  readonly where: string
  /** The quoted schema. Null: SQLite. */
  readonly schema: string | null
  /** For reads only. */
  query(sql: string, values?: unknown[]): Promise<Row[]>
  /** PostgreSQL only: opens a separate connection. */
  connect?(): Promise<Connection>
  close(): Promise<void>
}

export interface Connection {
  query(query: { name?: string; text: string; values?: unknown[] }): Promise<{ rows: Row[] }>
  /** The local port of the connection. Undefined over a Unix socket. */
  readonly localPort: number | undefined
  release(): void
}

type Given = Pick<Arguments, 'url' | 'schema' | 'command' | 'values'>

/** Opens the store that a URL names, without user code. */
export async function openStore(given: Given, observe?: Observe): Promise<Opened> {
  const { url, schema } = given
  if (!url) throw new UsageError('no database: give --url postgres://… or set DATABASE_URL')
  if (/^postgres(?:ql)?:/i.test(url)) return openPostgres(url, given, observe)
  if (/^(?:rediss?|valkeys?):/i.test(url)) {
    throw new UsageError(
      'the command line does not open a redisStore; use once.deadLetters, once.redrive and once.operations in your own program',
    )
  }
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(url) && !/^(?:file|sqlite):/i.test(url)) {
    throw new UsageError(`'${url.split(':', 1)[0] ?? ''}' databases are not supported; use PostgreSQL or a SQLite file`)
  }
  if (schema !== undefined) throw new UsageError('--schema is for PostgreSQL')
  // This may be a malformed database URL with a password, so no text may show it.
  if (/@|:\/\//.test(url) && !/^(?:file|sqlite):/i.test(url))
    throw new UsageError('--url is neither a postgres:// URL nor the name of a file; write file: before a name with @')
  const file = url.replace(/^(?:file|sqlite):(?:\/\/)?/i, '')
  if (given.command !== 'migrate' && file !== ':memory:' && !existsSync(file)) {
    throw onceError('ONCE_NOT_MIGRATED', {
      detail: `There is no file "${file}". Run: npx effectively-once migrate --url ${file}`,
    })
  }
  const store = sqliteStore({ file })
  const once = await onceOf(store, given, observe).catch(async (error: unknown) => {
    await store.close()
    throw error
  })
  return {
    store,
    once,
    where: url,
    schema: null,
    query: async (sql, values) => (await store.transaction((tx) => tx.query(sql, values))).rows,
    close: async () => void (await once.close()),
  }
}

async function openPostgres(url: string, given: Given, observe?: Observe): Promise<Opened> {
  const { schema } = given
  const where = withoutPassword(url)
  const pool = new (await loadPeer<Pool>('PostgreSQL', 'pg', 'Pool'))({
    connectionString: url,
    max: 4,
    connectionTimeoutMillis: 10_000,
  })
  // Ignore idle connections that break: the next query reports it.
  pool.on('error', () => {})
  const store = pgStore(pool, schema === undefined ? {} : { schema }) as SqlStore<unknown>
  const once = await onceOf(store, given, observe).catch(async (error: unknown) => {
    await pool.end()
    throw error
  })
  return {
    store,
    once,
    where,
    schema: `"${schema ?? 'effectively_once'}"`,
    query: async (sql, values) => (await pool.query(sql, values)).rows,
    async connect() {
      const client = await pool.connect()
      return {
        query: (query) => client.query(query),
        localPort: client.connection?.stream?.localPort,
        release: () => client.release(true),
      }
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}

async function onceOf(store: SqlStore<unknown>, given: Given, observe?: Observe): Promise<Once<unknown, {}>> {
  const { name: namespace, no } = await namespaceOf(store, given)
  const options = { namespace, store, sweep: false, guard: 'off', ...(observe && { observe }) } as const
  return createOnce(options, { ...systemParts, namespaceNo: no })
}

/** The part of pg's pool that is used here. */
interface PgPool extends PoolLike<PoolClientLike> {
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[] }>
  connect(): Promise<PgClient>
  on(event: 'error', listener: () => void): void
  end(): Promise<void>
}

interface PgClient extends PoolClientLike {
  query(query: { name?: string; text: string; values?: unknown[] }): Promise<{ rows: Row[] }>
  readonly connection?: { readonly stream?: { readonly localPort?: number } }
  release(destroy?: boolean): void
}

type Pool = new (options: object) => PgPool

function withoutPassword(url: string): string {
  try {
    const { host, pathname } = new URL(url)
    return `${host}${pathname}`
  } catch {
    throw new UsageError('--url is not a URL')
  }
}
