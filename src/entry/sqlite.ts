export { sqliteStore } from '../store/sqlite/sqlite.ts'
export type { SqliteOptions, SqliteStore } from '../store/sqlite/sqlite.ts'
export type { SqlResult, SqlTx } from '../store/sqlite/tx.ts'
