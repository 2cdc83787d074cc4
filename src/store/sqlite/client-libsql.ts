import type { Client } from './client.ts'
import { Prepared } from './prepared.ts'
import { type Bindable, readable } from './value.ts'

/** The part of the package `libsql` that we use. It has the shape of better-sqlite3. */
type Libsql = new (file: string) => LibsqlDatabase

interface LibsqlDatabase {
  readonly inTransaction: boolean
  prepare(sql: string): LibsqlStatement
  exec(sql: string): void
  close(): void
}

interface LibsqlStatement {
  readonly reader: boolean
  all(values: readonly Bindable[]): object[]
  run(values: readonly Bindable[]): { changes: number }
  safeIntegers(enabled: boolean): unknown
}

/**
 * These statements are never prepared. In this library, a prepared statement that was refused stays open, and keeps its
 * connection at that state of the file. After another process has written, every `begin immediate` would then be
 * refused for ever.
 */
const TRANSACTION_CONTROL = /^(?:begin|commit|rollback|savepoint|release)\b/

export function libsqlClient(Database: Libsql, file: string): Client {
  const database = new Database(file)
  const prepared = new Prepared((sql) => {
    const statement = database.prepare(sql)
    statement.safeIntegers(true)
    return { statement, returnsRows: statement.reader }
  })
  return {
    library: 'libsql',
    returnsRows: (sql) => prepared.get(sql).returnsRows,
    // `get` would add a column of its own to the row.
    all: (sql, values = []) => readable(prepared.get(sql).statement.all(values)),
    run(sql, values) {
      if (values || !TRANSACTION_CONTROL.test(sql)) return prepared.get(sql).statement.run(values ?? []).changes
      database.exec(sql)
      return 0
    },
    inTransaction: () => database.inTransaction,
    close() {
      prepared.clear()
      database.close()
    },
  }
}
