import { onceError } from '../../errors.ts'
import type { Row, SqlStore } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { hasMethods, revocableHandle, requireThat, type RevocableHandle } from './revocable-handle.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

/** The part of Kysely that we use, as a structural type. `Tx` is its `Transaction<DB>`. */
export interface KyselyDatabase<Tx> {
  transaction(): {
    setIsolationLevel(level: 'read committed'): { execute<T>(run: (tx: Tx) => Promise<T>): Promise<T> }
  }
  withoutPlugins: unknown
}

export interface KyselyOptions {
  /** The database behind Kysely. Kysely does not reveal it. */
  dialect: 'postgres'
}

/**
 * @example
 * const db = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) })
 * const once = effectivelyOnce({ namespace: 'payments', store: kyselyStore(db, { dialect: 'postgres' }) })
 */
export function kyselyStore<Tx>(db: KyselyDatabase<Tx>, options: KyselyOptions & PostgresStoreOptions): SqlStore<Tx> {
  return postgresStore(kyselyDriver(db, options), options)
}

export function kyselyDriver<Tx>(db: KyselyDatabase<Tx>, options: KyselyOptions): PgDriver<Tx> {
  requireThat(options?.dialect === 'postgres', `kyselyStore(db, { dialect }) knows the dialect 'postgres' only`)
  requireThat(
    hasMethods(db, METHODS) && !(db as unknown as Executing).isTransaction,
    'kyselyStore(db, ...) needs a Kysely, not a transaction of it',
  )
  return callbackDriver<Tx>({
    name: 'kysely',
    transaction: (callback) => db.transaction().setIsolationLevel('read committed').execute(callback),
    query: (statement) => send(db as unknown as Executing, statement),
    queryIn: (tx, statement) => send(tx as Executing, statement),
    revocable(tx, _, takeTurn) {
      const held = revocableHandle(takeTurn)
      return { tx: guarded(tx as Executing, held) as Tx, revoke: held.revoke }
    },
    isTransaction: (tx) => hasMethods(tx, METHODS) && (tx as Executing).isTransaction,
  })
}

const METHODS = ['transaction', 'withoutPlugins', 'withPlugin', 'executeQuery', 'getExecutor']

interface Executing {
  readonly isTransaction: boolean
  withoutPlugins(): Executing
  withPlugin(plugin: unknown): Executing
  executeQuery(query: unknown): Promise<{ rows: unknown[] }>
  getExecutor(): Executor
  startTransaction?: unknown
}

type Executor = Record<string, (...args: unknown[]) => unknown>

/** The same as `CompiledQuery.raw`. The user's plugins are left out, because a plugin may rename our columns. */
async function send(db: Executing, { text, values }: PgStatement): Promise<readonly Row[]> {
  const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
  const compiled = { sql: text, parameters: [...values], query, queryId: { queryId: 'effectively-once' } }
  return (await db.withoutPlugins().executeQuery(compiled)).rows as Row[]
}

const PLUGIN = {
  transformQuery: ({ node }: { node: unknown }) => node,
  transformResult: ({ result }: { result: unknown }) => Promise.resolve(result),
}

/** A plugin that does nothing makes Kysely create a new transaction object, whose executor can be revoked. */
function guarded(tx: Executing, held: RevocableHandle): Executing {
  const handle = tx.withPlugin(PLUGIN)
  hold(handle.getExecutor(), held)
  handle.startTransaction = () => {
    throw held.refusal() ?? onceError('ONCE_TX_TAKEN')
  }
  return handle
}

function hold(executor: Executor, held: RevocableHandle): Executor {
  const replace = (name: string, by: (original: () => unknown, args: unknown[]) => unknown): void => {
    const original = executor[name]
    if (original) executor[name] = (...args) => by(() => Reflect.apply(original, executor, args), args)
  }
  for (const name of DERIVING) replace(name, (derive) => hold(derive() as Executor, held))
  replace('executeQuery', (execute, [query]) =>
    held.send(async () => {
      const refusal = held.refusal((query as { sql?: unknown }).sql)
      if (refusal) throw refusal
      return execute()
    }),
  )
  // This also refuses earlier compiled queries, streams, and requests for the connection itself.
  replace('provideConnection', async (provide) => {
    const refusal = held.refusal()
    if (refusal) throw refusal
    return provide()
  })
  return executor
}

const DERIVING = ['withPlugin', 'withPlugins', 'withPluginAtFront', 'withoutPlugins', 'withConnectionProvider']
