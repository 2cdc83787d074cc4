/** Next.js with the built app, in a process of its own: APP DATABASE. */
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { CONTRACT_COUNT, CONTRACT_TABLE } from '../../src/testing/http-contract/index.ts'
import { protectOn } from './protect.ts'

interface NextApp {
  prepare(): Promise<void>
  getRequestHandler(): (req: unknown, res: unknown) => Promise<void>
}

const [dir = '', file = ''] = process.argv.slice(2)
const store = sqliteStore({ file })
const once = effectivelyOnce({ namespace: 'next', store, sweep: false })
await once.migrate()
await store.transaction((tx) => tx.query(CONTRACT_TABLE))
Object.assign(globalThis, { protect: protectOn(once) })

const next = createRequire(join(dir, 'package.json'))('next') as (options: object) => NextApp
const app = next({ dev: false, dir, quiet: true })
await app.prepare()
const handle = app.getRequestHandler()
const server = createServer((req, res) => {
  const [, what, key] = (req.url ?? '').split('/')
  if (what !== 'effects') void handle(req, res)
  else {
    const counted = store.transaction((tx) => tx.query(CONTRACT_COUNT, [key]))
    void counted.then(({ rows }) => res.end(String((rows[0] as { n: number }).n)))
  }
})
server.listen(0, '127.0.0.1', () => console.log(`listening ${(server.address() as AddressInfo).port}`))
