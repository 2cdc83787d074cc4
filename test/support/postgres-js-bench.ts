import postgres from 'postgres'
import { postgresJsDriver } from '../../src/store/postgres/postgres-js.ts'
import type { Bench } from './driver-contract.ts'

type Tx = postgres.TransactionSql

/** postgres.js under the contract of drivers. */
export async function postgresJsBench(url: string): Promise<Bench<Tx>> {
  const sql = postgres(url, { max: 4, onnotice: () => {} })
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  return {
    driver: postgresJsDriver(sql),
    insert: (tx, id) => tx`insert into effect (id) values (${id})`,
    later(tx, id) {
      const query = tx`insert into effect (id) values (${id})`
      return () => query.then((rows) => rows)
    },
    nested: (tx, work) => tx.savepoint(work),
    raw: (tx, text) => tx.unsafe(text),
    own: (work) => sql.begin(work),
    root: sql as unknown as Tx,
    admin: (text) => admin.unsafe(text),
    async close() {
      // Without a timeout it waits for ever for a query whose connection was killed.
      await sql.end({ timeout: 1 })
      await admin.end()
    },
  }
}
