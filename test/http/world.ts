import { mkdtemp, rm } from 'node:fs/promises'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import { inject } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { onceError } from '../../src/errors.ts'
import { effectivelyOnce, type Once, type SqlStore } from '../../src/index.ts'
import type { Signal } from '../../src/observe/signal.ts'
import { CONTRACT_COUNT, CONTRACT_TABLE, contractRoutes } from '../../src/testing/http-contract/index.ts'
import type { ContractRoute } from '../../src/testing/http-contract/index.ts'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { tiered } from '../../src/tier/tiered.ts'
import { freshDatabase } from '../support/postgres.ts'

/** What both stores' transactions have in common. */
export interface QueryTx {
  query(sql: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

/** An instance on a real store, and the eyes of a test on it. */
export interface World {
  readonly once: Once<QueryTx, {}>
  readonly routes: readonly ContractRoute[]
  readonly signals: readonly Signal[]
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  effects(key: string): Promise<number>
  runs(key: string): number
  ran(key: string): number
  failNextCommit(how: 'lost' | 'fault'): void
  close(): Promise<void>
}

export type StoreKind = 'sqlite' | 'postgres' | 'tiered sqlite' | 'tiered postgres'

export async function openWorld(kind: StoreKind): Promise<World> {
  const { store, query, close } = await opened(kind)
  const trap: { failure: Error | undefined } = { failure: undefined }
  const signals: Signal[] = []
  const once = effectivelyOnce<QueryTx>({
    namespace: 'contract',
    store: trapped(store, trap),
    guard: 'off',
    sweep: false,
    observe: (signal) => signals.push(signal),
  })
  await once.migrate()
  await query(CONTRACT_TABLE)
  const runs = new Map<string, number>()
  const ran = (key: string): number => {
    runs.set(key, (runs.get(key) ?? 0) + 1)
    return runs.get(key) ?? 0
  }
  return {
    once,
    signals,
    query,
    ran,
    routes: contractRoutes(ran),
    runs: (key) => runs.get(key) ?? 0,
    effects: async (key) => Number((await query(CONTRACT_COUNT, [key]))[0]?.['n']),
    failNextCommit: (how) => {
      trap.failure = how === 'lost' ? onceError('ONCE_COMMIT_UNKNOWN') : new Error('a fault nobody thought of')
    },
    close: async () => {
      await once.close()
      await close()
    },
  }
}

async function opened(kind: StoreKind): Promise<Opened> {
  const plain = kind.endsWith('sqlite') ? await openSqlite() : await openPostgres()
  const { redis } = inject('servers')
  if (!kind.startsWith('tiered') || 'missing' in redis) return plain
  const client = new Redis(redis.url)
  const close = async (): Promise<void> => {
    client.disconnect()
    await plain.close()
  }
  return { ...plain, store: tiered(plain.store, { cache: redisCache(client) }), close }
}

interface Opened {
  readonly store: SqlStore<QueryTx>
  query: World['query']
  close(): Promise<void>
}

async function openSqlite(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), 'http-'))
  const store = sqliteStore({ file: join(folder, 'test.db') })
  return {
    store: store as unknown as SqlStore<QueryTx>,
    query: (sql, values) =>
      store.transaction(async (tx) => (await tx.query(sql, values)).rows as Record<string, unknown>[]),
    close: () => rm(folder, { recursive: true, force: true }),
  }
}

async function openPostgres(): Promise<Opened> {
  const database = await freshDatabase()
  const pool = new pg.Pool({ connectionString: database.url, max: 10 })
  return {
    store: pgStore(pool) as unknown as SqlStore<QueryTx>,
    query: async (sql, values) => (await pool.query(sql, values)).rows,
    close: async () => {
      await pool.end().catch(() => {})
      await database.drop()
    },
  }
}

/** A store whose next commit can be made to fail, after the handler has answered. */
function trapped(store: SqlStore<QueryTx>, trap: { failure: Error | undefined }): SqlStore<QueryTx> {
  const begin: SqlStore<QueryTx>['begin'] = async (params) => {
    const begun = await store.begin(params)
    const complete: typeof begun.session.complete = async (completion) => {
      const { failure } = trap
      if (!failure) return begun.session.complete(completion)
      trap.failure = undefined
      await begun.session.rollback()
      throw failure
    }
    return { ...begun, session: over(begun.session, { complete }) }
  }
  return over(store, { begin })
}

/** An object with some methods replaced; the others keep their own `this`. */
function over<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name)
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** The row a handler writes in its transaction. */
export function effect(tx: QueryTx, key: string): Promise<unknown> {
  return tx.query('insert into contract_effect (route, key) values ($1, $2)', ['x', key])
}

/** A server under test. */
export interface Started {
  readonly base: string
  close(): Promise<void>
}

export async function listen(server: Server): Promise<Started> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    base: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
