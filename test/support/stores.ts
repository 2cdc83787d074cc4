import { PGlite } from '@electric-sql/pglite'
import { PrismaPg } from '@prisma/adapter-pg'
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe } from 'vitest'
import { generatePrismaClient } from '../../scripts/prisma-generate.ts'
import { drizzleStore } from '../../src/entry/drizzle.ts'
import { kyselyStore } from '../../src/entry/kysely.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { pgliteStore } from '../../src/entry/pglite.ts'
import { postgresJsStore } from '../../src/entry/postgres.ts'
import { prismaStore } from '../../src/entry/prisma.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce, type Once, type OnceOptions } from '../../src/index.ts'
import type { Row, SqlStore } from '../../src/store/store.ts'
import { describePostgres } from './postgres.ts'
import { inTransaction } from './transaction.ts'

/** A store as a user would set it up, and ways to look at the same database from beside it. */
export interface Bed {
  // oxlint-disable-next-line no-explicit-any -- every client has its own transaction type; the suites only pass it on
  readonly store: SqlStore<any>
  /** Another schema's, on the same client; its schema is not there yet. */
  // oxlint-disable-next-line no-explicit-any -- as above
  readonly other?: SqlStore<any>
  /** SQL with $1 placeholders through the handler's own `tx`. */
  // oxlint-disable-next-line no-explicit-any -- as above
  raw(tx: any, text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  /** The user's own transaction. */
  // oxlint-disable-next-line no-explicit-any -- as above
  own<R>(work: (tx: any) => Promise<R>): Promise<R>
  /** SQL on another connection (or, with one connection, between transactions). */
  admin(text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  close(): Promise<void>
}

const OTHER = { schema: 'other' } as const

type Opener = (url: string) => Promise<Bed>

async function beside(url: string): Promise<Pick<Bed, 'admin'> & { end(): Promise<void> }> {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  return {
    admin: async (text, values) => (await pool.query<Row>(text, values as unknown[])).rows,
    end: () => pool.end(),
  }
}

const openPg: Opener = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  pool.on('error', () => {})
  const { admin, end } = await beside(url)
  return {
    store: pgStore(pool),
    other: pgStore(pool, OTHER),
    raw: async (tx: pg.PoolClient, text, values) => (await tx.query<Row>(text, values as unknown[])).rows,
    own: (work) => inTransaction(pool, work),
    admin,
    close: async () => void (await Promise.all([pool.end(), end()])),
  }
}

const openPostgresJs: Opener = async (url) => {
  const sql = postgres(url, { max: 10, onnotice: () => {} })
  const { admin, end } = await beside(url)
  return {
    store: postgresJsStore(sql),
    other: postgresJsStore(sql, OTHER),
    raw: (tx: postgres.TransactionSql, text, values) => tx.unsafe(text, (values ?? []) as never[]),
    own: (work) => sql.begin(work) as Promise<never>,
    admin,
    // Without a timeout postgres.js waits for ever for a connection it has lost.
    close: async () => void (await Promise.all([sql.end({ timeout: 5 }), end()])),
  }
}

const openDrizzle: Opener = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  pool.on('error', () => {})
  const db = drizzle(pool)
  const { admin, end } = await beside(url)
  return {
    store: drizzleStore(db),
    other: drizzleStore(db, OTHER),
    raw: async (tx: typeof db, text, values) => (await tx.execute(drizzleSql.raw(inlined(text, values)))).rows,
    own: (work) => db.transaction(work),
    admin,
    close: async () => void (await Promise.all([pool.end(), end()])),
  }
}

const openKysely: Opener = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  pool.on('error', () => {})
  // Kysely hides its clients: only the pool's owner can see one of them lose its connection in mid-transaction.
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) })
  const { admin, end } = await beside(url)
  return {
    store: kyselyStore(db, { dialect: 'postgres' }),
    other: kyselyStore(db, { dialect: 'postgres', ...OTHER }),
    raw: async (tx: typeof db, text, values) =>
      (await tx.executeQuery(CompiledQuery.raw(text, [...(values ?? [])]))).rows as Row[],
    own: (work) => db.transaction().execute(work),
    admin,
    close: async () => void (await Promise.all([db.destroy(), end()])),
  }
}

const openPrisma: Opener = async (url) => {
  await generatePrismaClient()
  const { PrismaClient } = await import('./prisma/generated/client.ts')
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 10 }), log: [] })
  const { admin, end } = await beside(url)
  return {
    store: prismaStore(prisma, { dialect: 'postgres' }),
    other: prismaStore(prisma, { dialect: 'postgres', ...OTHER }),
    raw: (tx: typeof prisma, text, values) => tx.$queryRawUnsafe(inlined(text, values)),
    own: (work) => prisma.$transaction(work as never) as Promise<never>,
    admin,
    close: async () => void (await Promise.all([prisma.$disconnect(), end()])),
  }
}

async function openPGlite(): Promise<Bed> {
  const db = await PGlite.create()
  return {
    store: pgliteStore(db),
    raw: async (tx: PGlite, text, values) => (await tx.query<Row>(text, [...(values ?? [])])).rows,
    own: (work) => db.transaction(work),
    admin: async (text, values) => (await db.query<Row>(text, [...(values ?? [])])).rows,
    close: () => db.close(),
  }
}

async function openSqlite(): Promise<Bed> {
  const directory = await mkdtemp(join(tmpdir(), 'once-'))
  const store = sqliteStore({ file: join(directory, 'test.db') })
  const aside = sqliteStore({ file: join(directory, 'test.db') })
  const raw: Bed['raw'] = async (tx, text, values) => (await tx.query(text, values)).rows
  return {
    store,
    raw,
    own: (work) => store.transaction(work),
    admin: async (text, values) => aside.transaction(async (tx) => (await tx.query(text, [...(values ?? [])])).rows),
    async close() {
      await store.close()
      await aside.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** A literal for clients whose raw SQL takes no parameters; test values only. */
function inlined(text: string, values: readonly unknown[] = []): string {
  return text.replaceAll(/\$(\d+)/g, (_, n: string) => {
    const value = values[Number(n) - 1]
    return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`
  })
}

export const SERVER_CLIENTS: Readonly<Record<string, Opener>> = {
  pg: openPg,
  'postgres.js': openPostgresJs,
  Drizzle: openDrizzle,
  Kysely: openKysely,
  Prisma: openPrisma,
}

const EMBEDDED: Readonly<Record<string, () => Promise<Bed>>> = { PGlite: openPGlite, SQLite: openSqlite }

export interface Place {
  /** Inside hooks and tests. */
  readonly bed: Bed
  /** An instance of its own: to the others it is another process. */
  // oxlint-disable-next-line no-explicit-any -- as above
  once(options?: Partial<OnceOptions<any, {}>>): Once<any, {}>
}

type Define = (place: Place, client: string) => void

/** A suite on one client of the server. */
export function describeClient(title: string, client: string, define: Define): void {
  describePostgres(`${title}, ${client}`, (database) =>
    set(() => (SERVER_CLIENTS[client] as Opener)(database.url), define, client),
  )
}

/** A suite on every client of the server. */
export function describeClients(title: string, define: Define): void {
  for (const client of Object.keys(SERVER_CLIENTS)) describeClient(title, client, define)
}

/** A suite on the stores with one writer, or on one of them. */
export function describeEmbedded(title: string, define: Define, only?: string): void {
  for (const [client, open] of Object.entries(EMBEDDED).filter(([name]) => name === (only ?? name)))
    describe(`${title}, ${client}`, () => {
      set(open, define, client)
    })
}

export function describeAll(title: string, define: Define): void {
  describeClients(title, define)
  describeEmbedded(title, define)
}

function set(open: () => Promise<Bed>, define: Define, client: string): void {
  let bed: Bed | undefined
  beforeAll(async () => {
    bed = await open()
    await bed.store.schema.migrate()
    await bed.admin('create table charges (id integer primary key, key text, amount integer)')
    await bed.admin('create table accounts (id integer primary key, balance integer check (balance >= 0))')
  })
  afterAll(() => bed?.close())
  define(
    {
      get bed() {
        if (!bed) throw new Error('the bed exists only inside hooks and tests')
        return bed
      },
      once: (options) =>
        effectivelyOnce({ namespace: 'test', store: (bed as Bed).store, guard: 'off', sweep: false, ...options }),
    },
    client,
  )
}
