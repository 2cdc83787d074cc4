import type { Toy } from './toy.ts'

/** A store for a client that runs transactions as callbacks: `run(sql, values)` and `atomically(work)`. */
export const toyStore: Toy = {
  subpath: `  toydb: { kind: 'store', peers: { toydb: '>=1' }, kB: 44, page: 'docs/stores.md' },`,
  rows: [],
  page: 'docs/stores.md',
  proof: { file: 'src/store/postgres/toydb.test.ts' },
  files: {
    'src/entry/toydb.ts': `export { toyStore } from '../store/postgres/toydb.ts'
export type { ToyDatabase, ToyTx } from '../store/postgres/toydb.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
`,
    'src/store/postgres/toydb.ts': `import type { Row, Store } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import type { PgDriver } from './driver/driver.ts'
import { hasMethods, requireThat, revocableHandle } from './revocable-handle.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

export interface ToyTx {
  run(sql: string, values?: readonly unknown[]): Promise<readonly Row[]>
}
export interface ToyDatabase extends ToyTx {
  atomically<T>(work: (tx: ToyTx) => Promise<T>): Promise<T>
}

export function toyStore(db: ToyDatabase, options?: PostgresStoreOptions): Store<ToyTx> {
  return postgresStore(toyDriver(db), options)
}

export function toyDriver(db: ToyDatabase): PgDriver<ToyTx> {
  requireThat(hasMethods(db, ['run', 'atomically']), 'toyStore(db) needs a database of the package "toydb"')
  return callbackDriver<ToyTx>({
    name: 'toydb',
    single: true,
    transaction: (callback) =>
      db.atomically(async (tx) => {
        await tx.run('set transaction isolation level read committed')
        await callback(tx)
      }),
    query: ({ text, values }) => db.run(text, values),
    queryIn: (tx, { text, values }) => tx.run(text, values),
    revocable(tx, _, takeTurn) {
      const held = revocableHandle(takeTurn)
      const run: ToyTx['run'] = (sql, values) =>
        held.send(async () => {
          const refusal = held.refusal(sql)
          if (refusal) throw refusal
          return tx.run(sql, values)
        })
      return { tx: { run }, revoke: held.revoke }
    },
    isTransaction: (tx) => hasMethods(tx, ['run']) && !hasMethods(tx, ['atomically']),
  })
}
`,
    'src/store/postgres/toydb.test.ts': `import { PGlite } from '@electric-sql/pglite'
import { afterAll, describe } from 'vitest'
import { driverContract, storeWorks, type Bench } from '../../../test/support/driver-contract.ts'
import type { Row } from '../store.ts'
import { toyDriver, type ToyDatabase, type ToyTx } from './toydb.ts'

describe('toydb', () => {
  const lite = new PGlite()
  afterAll(() => lite.close())
  const over = (client: Pick<PGlite, 'query'>): ToyTx => ({
    run: async (sql, values) => (await client.query<Row>(sql, values && [...values])).rows,
  })
  const db: ToyDatabase = { ...over(lite), atomically: (work) => lite.transaction((tx) => work(over(tx as never))) }
  const make = async (): Promise<Bench<ToyTx>> => ({
    driver: toyDriver(db),
    insert: (tx, id) => tx.run('insert into effect (id) values ($1)', [id]),
    later: (tx, id) => () => tx.run('insert into effect (id) values ($1)', [id]),
    async nested(tx, work) {
      await tx.run('savepoint nested')
      try {
        await work(tx)
        await tx.run('release savepoint nested')
      } catch (error) {
        await tx.run('rollback to savepoint nested')
        throw error
      }
    },
    raw: (tx, text) => tx.run(text),
    own: (work) => db.atomically(work),
    root: db,
    admin: (text) => db.run(text),
    close: () => Promise.resolve(),
  })
  driverContract(make, { server: false })
  storeWorks(make)
})
`,
  },
}
