import { join } from 'node:path'
import { sqliteStore } from 'effectively-once/sqlite'
import { ACCOUNTS, CLOSED_ACCOUNT, SERVICES, SKUS, STOCK, type ServiceName } from './catalogue.ts'

/**
 * Each service has its own database. No constraint in these tables refuses a second row for the same order, because the
 * example shows that the library prevents it.
 */
const TABLES: Record<ServiceName, readonly string[]> = {
  orders: ['create table orders (order_id text not null, customer text not null, payment text not null)'],
  inventory: [
    'create table stock (sku text primary key, units integer not null)',
    'create table movements (order_id text not null, sku text not null)',
    ...SKUS.map((sku) => `insert into stock (sku, units) values ('${sku}', ${STOCK})`),
  ],
  email: ['create table mails (order_id text not null, mail text not null)'],
  referrals: [
    'create table accounts (name text primary key, is_open integer not null, balance integer not null default 0)',
    'create table credits (order_id text not null, account text not null)',
    ...ACCOUNTS.map(
      (name) => `insert into accounts (name, is_open) values ('${name}', ${name === CLOSED_ACCOUNT ? 0 : 1})`,
    ),
  ],
}

export interface Databases {
  file(service: ServiceName): string
  rows<Row extends Record<string, unknown>>(service: ServiceName, sql: string): Promise<readonly Row[]>
  close(): Promise<void>
}

/** Creates the tables, and later reads them by plain SQL, independently of the services. */
export async function openDatabases(folder: string): Promise<Databases> {
  const file = (service: ServiceName): string => join(folder, `${service}.db`)
  const stores = new Map(SERVICES.map((service) => [service, sqliteStore({ file: file(service) })]))
  for (const [service, store] of stores) {
    await store.transaction(async (tx) => {
      for (const statement of TABLES[service]) await tx.query(statement)
    })
  }
  return {
    file,
    async rows<Row extends Record<string, unknown>>(service: ServiceName, sql: string) {
      const store = stores.get(service)
      if (!store) throw new Error(`there is no service ${service}`)
      return (await store.transaction((tx) => tx.query<Row>(sql))).rows
    },
    async close() {
      for (const store of stores.values()) await store.close()
    },
  }
}
