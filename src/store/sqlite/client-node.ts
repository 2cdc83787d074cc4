import type { Client, OpenFile } from './client.ts'
import { Prepared } from './prepared.ts'
import { type Bindable, readable } from './value.ts'

/** The part of `node:sqlite` that we use, as of Node 22.13. `columns` and `isTransaction` exist since 22.16. */
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

export function nodeLibrary({ DatabaseSync }: NodeSqlite): OpenFile {
  const keepsColumns = keepsOldColumns(new DatabaseSync(':memory:'))
  return (file) => nodeClient(new DatabaseSync(file), keepsColumns)
}

function nodeClient(database: NodeDatabase, keepsColumns: boolean): Client {
  const prepare = (sql: string) => {
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return { statement, returnsRows: statement.columns ? statement.columns().length > 0 : looksLikeRows(sql) }
  }
  const prepared = new Prepared(prepare)
  return {
    library: 'node:sqlite',
    returnsRows: (sql) => prepared.get(sql).returnsRows,
    all(sql, values = []) {
      const { statement } = keepsColumns && sql.includes('*') ? prepare(sql) : prepared.get(sql)
      return readable(statement.all(...values))
    },
    run: (sql, values = []) => Number(prepared.get(sql).statement.run(...values).changes),
    inTransaction: () => database.isTransaction ?? probe(database),
    close() {
      prepared.clear()
      database.close()
    },
  }
}

/** Node 22 reads `select *` with the columns from the time it was prepared, even after `alter table`. */
function keepsOldColumns(database: NodeDatabase): boolean {
  database.exec('create table probe (a); insert into probe values (1)')
  const statement = database.prepare('select * from probe')
  statement.all()
  database.exec('alter table probe add column b default 2')
  const [row = {}] = statement.all()
  database.close()
  return !('b' in row)
}

/** Before 22.16 only the text shows it. At worst, the count of a write with "returning" inside a string is 0. */
function looksLikeRows(sql: string): boolean {
  const bare = sql.replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ').trim()
  if (/\breturning\b/i.test(bare)) return true
  if (/^with\b/i.test(bare)) return !/\b(?:insert|update|delete|replace)\b/i.test(bare)
  return /^(?:select|values|pragma|explain)\b/i.test(bare)
}

/** Before 22.16 only BEGIN shows it: SQLite refuses BEGIN inside a transaction. */
function probe(database: NodeDatabase): boolean {
  try {
    database.exec('begin')
  } catch {
    return true
  }
  database.exec('rollback')
  return false
}
