import type { Row } from '../store.ts'
import type { Bindable } from './value.ts'

/** One synchronous connection. Statements are prepared once per text. Nothing here waits for anybody. */
export interface Client {
  readonly library: Library
  /** The statement gives rows: a query, or a write with `returning`. */
  returnsRows(sql: string): boolean
  all(sql: string, values?: readonly Bindable[]): Row[]
  /** For statements without rows; answers with the number of rows changed. */
  run(sql: string, values?: readonly Bindable[]): number
  /** False too when SQLite rolled back by itself: a full disk, `insert or rollback`, `raise(rollback, …)`. */
  inTransaction(): boolean
  close(): void
}

export type Library = 'node:sqlite' | 'libsql'

export type OpenFile = (file: string) => Client
