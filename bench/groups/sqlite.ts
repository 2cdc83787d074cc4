import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { effectivelyOnce } from '../../src/index.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { findLibrary } from '../../src/store/sqlite/library.ts'
import type { Client } from '../../src/store/sqlite/client.ts'
import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import type { Charge } from '../support/charge.ts'
import { CALLERS, events } from '../support/database.ts'
import { meterCpu } from '../support/cpu.ts'
import { foundAgainst, measureRounds } from '../support/measure.ts'
import type { Scenario } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

/** The embedded store against a bare SQLite transaction on the same library, both in WAL mode with full sync. */
export async function measureSqlite(bench: Bench): Promise<Found> {
  const directory = await mkdtemp(join(tmpdir(), 'effectively-once-bench-'))
  const bare = await openBare(join(directory, 'bare.db'))
  const store = sqliteStore({ file: join(directory, 'ours.db') })
  const once = effectivelyOnce({ namespace: 'bench', store, events, guard: 'off', sweep: false })
  try {
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
    const scenarios: Scenario[] = [
      { name: 'sqliteBare', callers: CALLERS, operate: async () => bareCharge(bare, newCharge()) },
      {
        name: 'sqliteAtomic',
        callers: CALLERS,
        operate: () => {
          const input = newCharge()
          const { account, amount } = input
          return once.run({ scope: SCOPE, key: newKey(), input }, async ({ tx, publish }) => {
            const { rows } = await tx.query(INSERT_CHARGE, [account, amount])
            const made = { id: String(rows[0]?.['id']), account, amount }
            await publish('charge.created', made)
            return made
          })
        },
      },
      {
        name: 'sqliteBatched',
        callers: CALLERS,
        operate: () => charge({ scope: SCOPE, key: newKey(), input: newCharge() }),
      },
    ]
    const meter = await meterCpu(process.pid, null)
    const measured = await measureRounds(scenarios, { ...bench.options, cpu: meter, progress: bench.progress })
    return foundAgainst(measured, () => 'sqliteBare')
  } finally {
    await once.close()
    bare.close()
    await rm(directory, { recursive: true, force: true })
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
