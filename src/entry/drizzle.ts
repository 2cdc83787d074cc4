export { drizzleStore } from '../store/postgres/drizzle.ts'
export type { DrizzleDatabase } from '../store/postgres/drizzle.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
