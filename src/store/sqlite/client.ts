import type { Row } from '../store.ts'
import type { Bindable } from './value.ts'

/** One synchronous connection. Statements are prepared once per text. No method waits. */
export interface Client {
  readonly library: Library
  /** Whether the statement returns rows: a query, or a write with `returning`. */
  returnsRows(sql: string): boolean
  all(sql: string, values?: readonly Bindable[]): Row[]
  /** For statements without rows. Returns the number of changed rows. */
  run(sql: string, values?: readonly Bindable[]): number
  /** Also false after SQLite rolled back by itself: a full disk, `insert or rollback`, `raise(rollback, …)`. */
  inTransaction(): boolean
  close(): void
}

export type Library = 'node:sqlite' | 'libsql'

export type OpenFile = (file: string) => Client
