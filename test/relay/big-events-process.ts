import pg from 'pg'
import { effectivelyOnce, event, type Store } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { SqlTx } from '../../src/store/sqlite/tx.ts'

/** Drains an outbox of large events with little memory: says how many it saw. */
const [way, kind, place] = process.argv.slice(2) as ['relay' | 'consumer', 'postgres' | 'sqlite', string]

const events = { 'page.made': event<{ n: number; text: string }>(({ n }) => `p${n % 100}`) }
const pool = kind === 'postgres' ? new pg.Pool({ connectionString: place, max: 12 }) : undefined
const store: Store<SqlTx> = pool ? pgStore(pool) : sqliteStore({ file: place })
const once = effectivelyOnce({ namespace: 'big', store, events, guard: 'off' })

const seen = new Set<string>()
if (way === 'relay') {
  const sink = inProcessSink(async ({ id }) => void seen.add(id), { name: 'pages' })
  await once.relay({ to: sink }).drain()
} else {
  const on = { 'page.made': async ({ id }: { id: string }) => void seen.add(id) }
  await once.consumer('pages', { from: once.outbox }, on).drain()
}
console.log(seen.size)
await once.close()
await pool?.end()
