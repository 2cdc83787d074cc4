/** The server of the soak, in a process of its own: node --expose-gc server.js ADAPTER URL. */
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'
import { createOnce } from '../../src/once/once.ts'
import { systemParts } from '../../src/operation/parts.ts'
import { serverOf } from './apps.ts'
import { ADAPTERS, type FromServer, type ToServer } from './kinds.ts'

const [name, url = ''] = process.argv.slice(2)
const adapter = ADAPTERS.find((known) => known === name)
const { gc } = globalThis
if (!adapter || !process.send || !gc) throw new Error('the soak starts this program')

const uncaught: string[] = []
const caught = (error: unknown): void => void uncaught.push(String((error as Error)?.stack ?? error))
process.on('uncaughtException', caught)
process.on('unhandledRejection', caught)

const pool = new pg.Pool({ connectionString: url, max: 40 })
// A connection that the server ended at a deadline, and that nobody uses.
pool.on('error', () => {})
// Short times, so that records come and go as they do in a month.
const settings = {
  namespace: 'soak',
  store: pgStore(pool),
  replayFor: '20s',
  goneFor: '20s',
  guard: 'off',
} as const
const once = createOnce(settings, systemParts)
await once.migrate()
await pool.query('create table effects (key text not null)')
const server = await serverOf(adapter, once)
server.listen(0, '127.0.0.1', () => say({ say: 'listening', port: (server.address() as AddressInfo).port }))

function say(message: FromServer): void {
  process.send?.(message)
}

process.on('disconnect', () => process.exit(1))
process.on('message', (message: ToServer) => {
  if (message.ask === 'measure') void measure()
  else {
    server.closeAllConnections()
    void once
      .close()
      .then(() => pool.end())
      .finally(() => process.exit(0))
  }
})

async function measure(): Promise<void> {
  const { rows } = await pool.query<{ n: string }>(
    'select count(*) as n from (select key from effects group by key having count(*) > 1) as repeated',
  )
  // The replay cache is half or wholly full, as it happens, which is more than a leak would show. Its limit has tests.
  once.core.cache.clear()
  // What a finalizer lets go is collected by the next one.
  for (let i = 0; i < 3; i++) {
    gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  say({ say: 'measured', heapBytes: process.memoryUsage().heapUsed, uncaught, twice: Number(rows[0]?.n) })
}
