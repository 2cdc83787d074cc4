export { postgresJsStore } from '../store/postgres/postgres-js.ts'
export type { PostgresJsSql } from '../store/postgres/postgres-js.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
