export { pgliteStore } from '../store/postgres/pglite.ts'
export type { PGliteDatabase } from '../store/postgres/pglite.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
