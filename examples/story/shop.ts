import { effectivelyOnce, type Once } from '../../src/index.ts'
import { sqliteStore, type SqlTx } from '../../src/entry/sqlite.ts'
import { findLibrary, type OpenFile } from '../../src/store/sqlite/client.ts'
import { assembleSqliteStore } from '../../src/store/sqlite/sqlite.ts'

export type Shop = Once<SqlTx, {}>

export interface Charge {
  readonly id: number
  readonly amount: number
}

/** The whole service: one file, one instance. Another instance on the same file is to it what another process is. */
export function openShop(file: string): Shop {
  return effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), inFlight: { waitFor: '5s' } })
}

/** The same service on a store that lets us interfere with its COMMIT: how the story kills a process there. */
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
  return effectivelyOnce({ namespace: 'shop', store: assembleSqliteStore({ file }, { library }), sweep: false })
}

export async function prepare(file: string): Promise<void> {
  const store = sqliteStore({ file })
  await store.schema.migrate()
  await store.transaction((tx) =>
    tx.query('create table charges (id integer primary key, key text not null, amount integer not null)'),
  )
  await store.close()
}

/** One request for one charge: what the caller got, and whether anything ran for it. */
export async function charge(shop: Shop, key: string, amount: number): Promise<{ got: Charge; replay: boolean }> {
  let replay = true
  const got = await shop.run({ scope: 'customer-7', key, input: { amount } }, async ({ tx }) => {
    replay = false
    const insert = 'insert into charges (key, amount) values ($1, $2) returning id, amount'
    const { rows } = await tx.query<Charge>(insert, [key, amount])
    return rows[0] as Charge
  })
  return { got, replay }
}

/** A second connection that knows nothing of keys: plain SQL on the same file. */
export async function openLedger(file: string): Promise<{
  charges(key: string): number
  /** A double charge, made by hand: what the story must notice. */
  plant(key: string): void
  close(): void
}> {
  const client = (await findLibrary())(file)
  return {
    charges: (key) => Number(client.all('select count(*) as n from charges where key = ?', [key])[0]?.['n']),
    plant: (key) => void client.run('insert into charges (key, amount) values (?, 0)', [key]),
    close: () => client.close(),
  }
}
