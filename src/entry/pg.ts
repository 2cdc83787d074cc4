export { pgStore } from '../store/postgres/pg.ts'
export type { PgTx, PoolClientLike, PoolLike, PostgresStoreOptions } from '../store/postgres/pg.ts'
