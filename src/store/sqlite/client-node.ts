import type { Client } from './client.ts'
import { Prepared } from './prepared.ts'
import { type Bindable, readable } from './value.ts'

/** What we use of `node:sqlite`, as of Node 22.13; `columns` and `isTransaction` came with 22.16. */
interface NodeSqlite {
  DatabaseSync: new (file: string) => NodeDatabase
}

interface NodeDatabase {
  readonly isTransaction?: boolean
  prepare(sql: string): NodeStatement
  exec(sql: string): void
  close(): void
}

interface NodeStatement {
  all(...values: Bindable[]): object[]
  run(...values: Bindable[]): { changes: number | bigint }
  columns?(): unknown[]
  setReadBigInts(enabled: boolean): void
}

export function nodeClient({ DatabaseSync }: NodeSqlite, file: string): Client {
  const database = new DatabaseSync(file)
  const prepared = new Prepared((sql) => {
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return { statement, returnsRows: statement.columns ? statement.columns().length > 0 : looksLikeRows(sql) }
  })
  return {
    library: 'node:sqlite',
    returnsRows: (sql) => prepared.get(sql).returnsRows,
    all: (sql, values = []) => readable(prepared.get(sql).statement.all(...values)),
    run: (sql, values = []) => Number(prepared.get(sql).statement.run(...values).changes),
    inTransaction: () => database.isTransaction ?? probe(database),
    close() {
      prepared.clear()
      database.close()
    },
  }
}

/** Before 22.16 only the text tells. Wrong at worst for a write that says "returning" in a string: its count is 0. */
function looksLikeRows(sql: string): boolean {
  const bare = sql.replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ').trim()
  if (/\breturning\b/i.test(bare)) return true
  if (/^with\b/i.test(bare)) return !/\b(?:insert|update|delete|replace)\b/i.test(bare)
  return /^(?:select|values|pragma|explain)\b/i.test(bare)
}

/** Before 22.16 only BEGIN tells: it is refused inside a transaction. */
function probe(database: NodeDatabase): boolean {
  try {
    database.exec('begin')
  } catch {
    return true
  }
  database.exec('rollback')
  return false
}
