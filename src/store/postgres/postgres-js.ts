import type { Row, SqlStore } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { hasMethods, revocableHandle, requireThat } from './revocable-handle.ts'
import { guardedSql, unlessLost, type Life, type Sql } from './postgres-js-handle.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

/**
 * The part of postgres.js that we use, as a structural type. `Tx` is its `TransactionSql`, with the user's own types.
 */
export interface PostgresJsSql<Tx> {
  begin<T>(run: (tx: Tx) => T | Promise<T>): Promise<unknown>
  begin<T>(options: string, run: (tx: Tx) => T | Promise<T>): Promise<unknown>
  reserve: unknown
}

/**
 * @example
 * const sql = postgres(process.env.DATABASE_URL)
 * const once = effectivelyOnce({ namespace: 'payments', store: postgresJsStore(sql) })
 */
export function postgresJsStore<Tx>(sql: PostgresJsSql<Tx>, options?: PostgresStoreOptions): SqlStore<Tx> {
  return postgresStore(postgresJsDriver(sql), options)
}

export function postgresJsDriver<Tx>(sql: PostgresJsSql<Tx>): PgDriver<Tx> {
  requireThat(
    hasMethods(sql, ['begin', 'unsafe', 'reserve']),
    'postgresJsStore(sql) needs the sql that postgres(...) of the package "postgres" returned',
  )
  const root = sql as unknown as Sql
  const driver = callbackDriver<Tx>({
    name: 'postgres',
    sendsAhead: true,
    transaction(callback) {
      const life: Life = { lost: undefined }
      const outer = sql.begin('isolation level read committed', (tx) =>
        unlessLost(life, callback(guardedSql(tx as unknown as Sql, { refusal: () => life.lost, life }) as Tx)),
      )
      outer.catch((error: unknown) => {
        life.lost ??= error
      })
      return outer
    },
    query: (statement) => send(root, statement),
    queryIn: (tx, statement) => send(tx as Sql, statement),
    revocable(tx, joined, takeTurn) {
      const { refusal, revoke } = revocableHandle()
      return { tx: guardedSql(tx as Sql, { refusal, nativeSavepoints: joined, takeTurn }) as Tx, revoke }
    },
    isTransaction: (tx) => hasMethods(tx, ['savepoint', 'unsafe']),
  })
  // postgres.js listens again after a lost connection, and then calls `onlisten`.
  const listen: PgDriver<Tx>['listen'] = async ({ channel, called }) => {
    const { unlisten } = await (root as unknown as Listening).listen(channel.slice(1, -1), called, called)
    return () => unlisten()
  }
  return hasMethods(sql, ['listen']) ? { ...driver, listen } : driver
}

interface Listening {
  listen(channel: string, called: () => void, onlisten: () => void): Promise<{ unlisten(): Promise<void> }>
}

/** Sent in this turn of the event loop, so that a COMMIT requested next is sent after it. */
function send(sql: Sql, { name, text, values }: PgStatement): Promise<readonly Row[]> {
  return sql.unsafe(text, [...values], { prepare: name !== '' }).then((rows) => rows.map(withSnakeCase))
}

/** Undoes the user's `transform`: our column names are lower-case words with underscores. */
export function withSnakeCase(row: Row): Row {
  const entries = Object.entries(row)
  if (entries.every(([name]) => /^[a-z0-9_]+$/.test(name))) return row
  return Object.fromEntries(entries.map(([name, value]) => [snake(name), value]))
}

function snake(name: string): string {
  return name
    .replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    .replaceAll('-', '_')
    .replace(/^_/, '')
}
