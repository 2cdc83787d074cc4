import { onceError } from '../../errors.ts'
import type { BeginParams, SqlBegun, Reading, Retention, Row, Schema, SqlSession, SqlStore, Swept } from '../store.ts'
import { memoryBatches } from './batches.ts'
import { autocommit } from './client.ts'
import type { Client } from './client.ts'
import type { Step } from './database/connection.ts'
import { MemoryDatabase } from './database/database.ts'
import type { DatabaseClock } from './database/database.ts'
import { memoryErasure } from './erasure.ts'
import { isTransient, storeFailure } from './database/failure.ts'
import { memoryInbox } from './inbox.ts'
import { memoryLeases } from './leases.ts'
import { connectionOf, memoryTx } from './database/memory-tx.ts'
import type { MemoryTx } from './database/memory-tx.ts'
import { adoptNamespace, memoryNamespaces } from './namespaces.ts'
import { memoryOutbox } from './outbox.ts'
import { memoryRedrives } from './redrives.ts'
import { memoryStreams } from './streams.ts'
import { Pool } from './pool.ts'
import type { PoolOptions } from './pool.ts'
import type { SentEventRow } from './database/rows.ts'
import { MemorySession } from './session.ts'
import { statusOf } from './statements/status.ts'
import { BORN_COMPLETED } from './statements/claim.ts'
import { STATEMENTS } from './statements/index.ts'
import type { Statements } from './statements/index.ts'
import type { Isolation } from './database/transaction.ts'

/** The in-memory store keeps events for ever, so a sweep drops none. */
const NOTHING_ELSE = { events: 0, miscounted: [], skipped: false, troubles: [] } as const

export interface MemoryStoreOptions {
  /** Columns that must be unique together, by table: `{ charges: ['id'] }`. */
  readonly unique?: Readonly<Record<string, readonly string[]>>
  /** The database server. Two stores with the same server behave like two processes on one database. */
  readonly database?: MemoryDatabase
  readonly clock?: DatabaseClock
  /** Called before and after every statement. */
  readonly step?: Step
  /** The maximum number of connections, and how long a caller waits for one. */
  readonly pool?: Omit<PoolOptions, 'database' | 'step'>
  /** @internal */
  readonly statements?: Statements
}

/** `deadlineMs` works like PostgreSQL's `transaction_timeout`. */
export interface TransactionOptions {
  readonly isolation?: Isolation
  readonly deadlineMs?: number
}

/** A store for tests, with PostgreSQL's transactions, locks and snapshots. It writes nothing to disk. */
export interface MemoryStore extends SqlStore<MemoryTx> {
  readonly database: MemoryDatabase
  /** The connections in use. */
  readonly pool: Pool
  /** Committed rows. */
  rows(table: string): readonly Row[]
  /** Committed events, oldest first. */
  events(): readonly SentEventRow[]
  isTransient(error: unknown): boolean
  /** Runs the work in a transaction of your own, for `join`. */
  transaction<R>(work: (tx: MemoryTx) => Promise<R>, options?: TransactionOptions): Promise<R>
}

export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { unique, clock, step = null, pool: limits } = options
  const database = options.database ?? new MemoryDatabase({ ...(unique && { unique }), ...(clock && { clock }) })
  const pool = new Pool({ database, step, ...limits })
  const client: Client = { pool, statements: options.statements ?? STATEMENTS }
  return {
    name: 'memory',
    features: { transactional: true, concurrentClaims: true, serverDeadline: true },
    database,
    pool,
    schema: memorySchema(database, client),
    retention: memoryRetention(client),
    leases: memoryLeases(client),
    batches: memoryBatches(client),
    outbox: memoryOutbox(client),
    inbox: memoryInbox(client),
    redrives: memoryRedrives(client),
    erasure: memoryErasure(client, database),
    streams: memoryStreams(client),
    namespaces: memoryNamespaces(client),
    status: (params) => autocommit(client, 'status', (work) => statusOf(work, params)),
    begin: (params) => begin(client, params),
    open: ({ deadlineMs }) => open(client, deadlineMs),
    read: ({ id }) => read(client, id),
    refuse: (params) => autocommit(client, 'refuse', (work) => client.statements.refuse(work, params)),
    join: (tx) => join(client, tx),
    isTransient,
    close: () => Promise.resolve(),
    rows: (table) =>
      database
        .table(table)
        .rows(null)
        .map(([, row]) => ({ ...row })),
    events: () => database.events.all(),
    transaction: (work, options) => transaction(client, work, options),
  }
}

/** Sends BEGIN and the claim in one round trip. */
async function begin(client: Client, { claim, deadlineMs }: BeginParams): Promise<SqlBegun<MemoryTx>> {
  const connection = await client.pool.take()
  try {
    const { view, claimed } = await connection.trip('begin', (server) => {
      connection.begin({ deadlineMs })
      return connection.execute(server, 'claim', (work) => client.statements.claim(work, claim, BORN_COMPLETED))
    })
    return { view, claimed, session: new MemorySession(client, connection) }
  } catch (error) {
    connection.tx?.rollback()
    client.pool.give(connection)
    throw storeFailure(error)
  }
}

async function open(client: Client, deadlineMs: number): Promise<SqlSession<MemoryTx>> {
  const connection = await client.pool.take()
  try {
    await connection.trip('open', async () => connection.begin({ deadlineMs }))
  } catch (error) {
    connection.tx?.rollback()
    client.pool.give(connection)
    throw storeFailure(error)
  }
  return new MemorySession(client, connection)
}

/** Reads the record and its answer in two statements, each with its own snapshot. */
async function read(client: Client, id: string): Promise<Reading> {
  const { statements } = client
  const record = await autocommit(client, 'read', (work) => statements.reread(work, id))
  if (record?.state !== 'completed') return { record, answer: null }
  const answer = await autocommit(client, 'readAnswer', (work) => statements.readAnswer(work, id, record.token))
  return { record, answer }
}

async function join(client: Client, tx: MemoryTx): Promise<SqlSession<MemoryTx>> {
  const connection = connectionOf(tx)
  if (connection?.tx === undefined || connection.tx === null || connection.tx.ended) throw onceError('ONCE_TX_REQUIRED')
  if (connection.tx.isolation !== 'read committed') throw onceError('ONCE_TX_ISOLATION')
  const session = new MemorySession(client, connection, tx)
  await session.check()
  return session
}

async function transaction<R>(
  client: Client,
  work: (tx: MemoryTx) => Promise<R>,
  options: TransactionOptions = {},
): Promise<R> {
  const connection = await client.pool.take()
  const { tx, revoke } = memoryTx(connection)
  try {
    await connection.trip('user.begin', async () => connection.begin(options))
    const result = await work(tx)
    const committed = await connection.trip('user.commit', async () => connection.tx?.commit() === true)
    if (!committed) throw onceError('ONCE_ROLLED_BACK')
    return result
  } catch (error) {
    await connection.trip('user.rollback', async () => connection.tx?.rollback()).catch(() => undefined)
    throw error
  } finally {
    revoke()
    client.pool.give(connection)
  }
}

function memoryRetention(client: Client): Retention {
  const { statements } = client
  return {
    async sweep({ limit, signal }): Promise<Swept> {
      const records = await autocommit(client, 'sweep', (work) => statements.sweepRecords(work, limit))
      const suspended = await autocommit(client, 'suspendLapsed', (work) => statements.suspendLapsed(work, limit))
      const finished = records < limit && !signal?.aborted
      if (signal?.aborted)
        return { records, ...NOTHING_ELSE, suspended, partitionsDropped: 0, partitionsBusy: 0, finished }
      const days = await autocommit(client, 'dropAnswers', (work) => statements.dropAnswers(work))
      return { records, ...NOTHING_ELSE, suspended, ...days, finished }
    },
  }
}

function memorySchema(database: MemoryDatabase, client: Client): Schema {
  return {
    async migrate({ adopt } = {}) {
      const from = database.version
      database.version = 1
      if (adopt !== undefined) await adoptNamespace(client, adopt)
      return { from, to: 1 }
    },
    sql: () => '',
    version: () => Promise.resolve(database.version),
  }
}
