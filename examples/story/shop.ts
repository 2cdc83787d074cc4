import { effectivelyOnce, event, type Once } from '../../src/index.ts'
import { sqliteStore, type SqlTx } from '../../src/entry/sqlite.ts'
import type { OpenFile } from '../../src/store/sqlite/client.ts'
import { findLibrary } from '../../src/store/sqlite/library.ts'
import { assembleSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { TwiceBroker } from './broker.ts'

/** The shop's event catalogue. */
const events = { 'charge.created': event<{ charge: number; key: string }>(({ key }) => key) }

export type ShopEvents = typeof events
export type Shop = Once<SqlTx, ShopEvents>

export interface Charge {
  readonly id: number
  readonly amount: number
}

/** The whole service: one file, one instance. Another instance on the same file behaves like another process. */
export function openShop(file: string): Shop {
  return effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), events, inFlight: { waitFor: '5s' } })
}

/** The same service on a store whose COMMIT can be interrupted, so that the story can kill a process there. */
export function openShopInterrupted(file: string, atCommit: (commit: () => void) => void): Shop {
  const library = async (): Promise<OpenFile> => {
    const open = await findLibrary()
    return (path) => {
      const client = open(path)
      const run: typeof client.run = (sql, values) => {
        if (sql !== 'commit') return client.run(sql, values)
        atCommit(() => void client.run(sql))
        return 0
      }
      return { ...client, run }
    }
  }
  return effectivelyOnce({ namespace: 'shop', store: assembleSqliteStore({ file }, { library }), events, sweep: false })
}

export async function prepare(file: string): Promise<void> {
  const store = sqliteStore({ file })
  await store.schema.migrate()
  await store.transaction(async (tx) => {
    await tx.query('create table charges (id integer primary key, key text not null, amount integer not null)')
    // No constraint refuses a second receipt for the same charge: the consumer must prevent it.
    await tx.query('create table receipts (id integer primary key, key text not null, charge integer not null)')
  })
  await store.close()
}

/** The result of one request for a charge: the caller's answer, and whether the handler ran. */
export async function charge(shop: Shop, key: string, amount: number): Promise<{ got: Charge; replay: boolean }> {
  let replay = true
  const got = await shop.run({ scope: 'customer-7', key, input: { amount } }, async ({ tx, publish }) => {
    replay = false
    const insert = 'insert into charges (key, amount) values ($1, $2) returning id, amount'
    const { rows } = await tx.query<Charge>(insert, [key, amount])
    const made = rows[0] as Charge
    await publish('charge.created', { charge: made.id, key })
    return made
  })
  return { got, replay }
}

/** Sends the shop's events to a broker, and writes a receipt for each delivered event. */
export async function writeReceipts(shop: Shop, broker: TwiceBroker): Promise<{ runs: Map<string, number> }> {
  const runs = new Map<string, number>()
  await shop.relay({ to: broker.sink }).drain()
  const receipts = shop.consumer(
    'receipts',
    { from: broker.source },
    {
      'charge.created': async ({ data: { key, charge } }, { tx }) => {
        runs.set(key, (runs.get(key) ?? 0) + 1)
        await tx.query('insert into receipts (key, charge) values ($1, $2)', [key, charge])
      },
    },
  )
  // A redelivery that arrives while the message runs waits for the next round.
  while ((await receipts.drain()) > 0);
  return { runs }
}

/** A second connection without the library: plain SQL on the same file. */
export async function openLedger(file: string): Promise<{
  charges(key: string): number
  receipts(key: string): number
  /** Makes a double charge or receipt on purpose, which the story must notice. */
  plant(table: 'charges' | 'receipts', key: string): void
  close(): void
}> {
  const client = (await findLibrary())(file)
  return {
    charges: (key) => Number(client.all('select count(*) as n from charges where key = ?', [key])[0]?.['n']),
    receipts: (key) => Number(client.all('select count(*) as n from receipts where key = ?', [key])[0]?.['n']),
    plant: (table, key) => {
      const column = table === 'charges' ? 'amount' : 'charge'
      client.run(`insert into ${table} (key, ${column}) values (?, 0)`, [key])
    },
    close: () => client.close(),
  }
}
