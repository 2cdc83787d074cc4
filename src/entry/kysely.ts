export { kyselyStore } from '../store/postgres/kysely.ts'
export type { KyselyDatabase, KyselyOptions } from '../store/postgres/kysely.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
