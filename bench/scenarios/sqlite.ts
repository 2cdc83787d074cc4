import { join } from 'node:path'
import { effectivelyOnce } from '../../src/index.ts'
import type { Client, OpenFile } from '../../src/store/sqlite/client.ts'
import { findLibrary } from '../../src/store/sqlite/library.ts'
import { assembleSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import type { Charge } from '../support/charge.ts'
import { CALLERS, events } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

export interface SqliteScenarios {
  readonly scenarios: readonly Scenario[]
  close(): Promise<void>
}

/** The embedded store against a bare SQLite transaction on the same library, both in WAL mode with full sync. */
export async function openSqlite(
  directory: string,
  library: () => Promise<OpenFile> = findLibrary,
): Promise<SqliteScenarios> {
  const bare = await openBare(join(directory, 'bare.db'))
  const store = assembleSqliteStore({ file: join(directory, 'ours.db') }, { library })
  const once = effectivelyOnce({ namespace: 'bench', store, events, guard: 'off', sweep: false })
  await once.migrate()
  await store.transaction((tx) => tx.query(CHARGE_TABLE))
  const charge = once.batched({
    statement: ({ account, amount }: Charge) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
    respond: (rows, { account, amount }, { publish }) => {
      const made = { id: String(rows[0]?.['id']), account, amount }
      void publish('charge.created', made)
      return made
    },
  })
  const atomic = (): Promise<unknown> => {
    const input = newCharge()
    const { account, amount } = input
    return once.run({ scope: SCOPE, key: newKey(), input }, async ({ tx, publish }) => {
      const { rows } = await tx.query(INSERT_CHARGE, [account, amount])
      const made = { id: String(rows[0]?.['id']), account, amount }
      await publish('charge.created', made)
      return made
    })
  }
  return {
    scenarios: [
      { name: 'sqliteBare', callers: CALLERS, operate: async () => bareCharge(bare, newCharge()) },
      { name: 'sqliteAtomic', callers: CALLERS, operate: atomic },
      {
        name: 'sqliteBatched',
        callers: CALLERS,
        operate: () => charge({ scope: SCOPE, key: newKey(), input: newCharge() }),
      },
    ],
    async close() {
      await once.close()
      bare.close()
    },
  }
}

async function openBare(file: string): Promise<Client> {
  const client = (await findLibrary())(file)
  client.all('pragma journal_mode = wal')
  client.run('pragma synchronous = full')
  client.run(CHARGE_TABLE)
  client.run('create table event (id integer primary key, aggregateid text, type text, payload text, created_at text)')
  return client
}

function bareCharge(client: Client, { account, amount }: Charge): unknown {
  client.run('begin immediate')
  const [row] = client.all('insert into charge (account, amount) values (?, ?) returning id', [account, amount])
  const made = { id: String(row?.['id']), account, amount }
  client.run('insert into event (aggregateid, type, payload, created_at) values (?, ?, ?, current_timestamp)', [
    account,
    'charge.created',
    JSON.stringify(made),
  ])
  client.run('commit')
  return made
}

const CHARGE_TABLE = `create table charge (id integer primary key, account text not null, amount integer not null check (amount > 0), created_at text not null default current_timestamp)`
