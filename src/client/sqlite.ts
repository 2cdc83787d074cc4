import { invalid } from '../options.ts'
import type { CallStorage } from './types.ts'

interface Statement {
  run(...values: string[]): unknown
  get(...values: string[]): unknown
  all(...values: string[]): unknown[]
}

/** A database of `node:sqlite`, `libsql`, `better-sqlite3` or `bun:sqlite`. */
export interface SqliteLike {
  exec(sql: string): unknown
  prepare(sql: string): Statement
}

/** Keeps calls in a SQLite file, for any number of processes. The table is `effectively_once_calls`. */
export function sqliteStorage(database: SqliteLike): CallStorage {
  if (typeof database?.prepare !== 'function') throw invalid('sqliteStorage needs a database of SQLite')
  database.exec('pragma busy_timeout = 5000')
  database.exec('pragma synchronous = full')
  database.exec('create table if not exists effectively_once_calls (name text primary key, call text not null)')
  const insert = database.prepare(
    `insert into effectively_once_calls (name, call) values (?, ?)
     on conflict (name) do update set call = call returning call`,
  )
  const update = database.prepare(
    'update effectively_once_calls set call = ? where name = ? and call = ? returning name',
  )
  const remove = database.prepare('delete from effectively_once_calls where name = ? and call = ? returning name')
  const all = database.prepare('select call from effectively_once_calls')
  const callOf = (row: unknown): string => (row as { call: string }).call
  return {
    add: async (name, text) => callOf(insert.all(name, text)[0]),
    swap: async (name, from, to) => (to === null ? remove.all(name, from) : update.all(to, name, from)).length > 0,
    list: async () => all.all().map(callOf),
  }
}
