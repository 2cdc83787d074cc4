import { onceError } from '../../errors.ts'
import type { Row, SqlStore } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { hasMethods, revocableHandle, requireThat, type RevocableHandle } from './revocable-handle.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

/** The part of PGlite that we use, as a structural type. */
export interface PGliteDatabase<Tx> {
  transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T>
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  execProtocol: unknown
}

/**
 * PostgreSQL inside the process. It has one connection, so operations take turns. In a handler await nothing but `tx`:
 * a query on the database itself would wait for the handler, while the handler waits for the query.
 *
 * @example
 * const once = effectivelyOnce({ namespace: 'payments', store: pgliteStore(new PGlite('./data')) })
 */
export function pgliteStore<Tx>(db: PGliteDatabase<Tx>, options?: PostgresStoreOptions): SqlStore<Tx> {
  return postgresStore(pgliteDriver(db), options)
}

export function pgliteDriver<Tx>(db: PGliteDatabase<Tx>): PgDriver<Tx> {
  requireThat(
    hasMethods(db, ['transaction', 'query', 'execProtocol']),
    'pgliteStore(db) needs a PGlite of the package "@electric-sql/pglite"',
  )
  return callbackDriver<Tx>({
    name: 'pglite',
    single: true,
    transaction: (callback) =>
      db.transaction(async (tx) => {
        await send(tx as Queryable, { name: '', text: 'set transaction isolation level read committed', values: [] })
        await callback(tx)
      }),
    query: (statement) => send(db, statement),
    queryIn: (tx, statement) => send(tx as Queryable, statement),
    revocable(tx, _, takeTurn) {
      const held = revocableHandle(takeTurn)
      return { tx: guarded(tx as object, held) as Tx, revoke: held.revoke }
    },
    isTransaction: (tx) => hasMethods(tx, ['query', 'rollback']),
  })
}

interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

async function send(db: Queryable, { text, values }: PgStatement): Promise<readonly Row[]> {
  return (await db.query(text, [...values])).rows as Row[]
}

function guarded<T extends object>(tx: T, held: RevocableHandle): T {
  return new Proxy(tx, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key)
      if (key === 'closed') return value === true || held.refusal() !== undefined
      if (typeof value !== 'function') return value
      return (...args: unknown[]) =>
        held.send((): Promise<unknown> => {
          const text: unknown = Array.isArray(args[0]) ? args[0][0] : args[0]
          const refusal =
            held.refusal(key === 'listen' ? undefined : text) ??
            (key === 'rollback' ? onceError('ONCE_TX_TAKEN') : undefined)
          return refusal ? Promise.reject(refusal) : (Reflect.apply(value, target, args) as Promise<unknown>)
        })
    },
  })
}
