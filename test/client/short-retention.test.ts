import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { idempotentClient } from '../../src/entry/client.ts'
import { idempotency } from '../../src/entry/node.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce, type Once } from '../../src/index.ts'
import { listen, type QueryTx, type Started } from '../http/world.ts'

let folder: string
let once: Once<QueryTx, {}>
let server: Started
let charges = 0

/** The shared options remember a key for eight days, and this route for one second. Its first answer is lost. */
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'client-retention-'))
  const store = sqliteStore({ file: join(folder, 'shop.db') })
  once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  await once.migrate()
  const idempotent = idempotency(once, { scope: 'global' })
  const charge = idempotent({ replayFor: '1s', goneFor: '0s' }, (_req, res) => {
    charges += 1
    res.writeHead(201).end()
  })
  server = await listen(
    createServer((req, res) => {
      if (req.url === idempotent.policyPath) return idempotent.policyHandler(req, res)
      if (charges === 0) res.write = res.end = () => req.socket.destroy() as never
      return charge(req, res)
    }),
  )
})
afterEach(async () => {
  await server.close()
  await once.close()
  await rm(folder, { recursive: true, force: true })
})

it('a call whose key the server has forgotten is not sent again, although other routes remember longer', async () => {
  const client = idempotentClient({ retry: { attempts: 1 }, timeout: '300ms' })
  const call = client.fetch(`${server.base}/charges`, { method: 'POST' }, { name: 'pay order 7' })
  await expect(call).rejects.toMatchObject({ code: 'ONCE_CALL_PENDING' })
  await vi.waitFor(async () => expect((await once.sweep()).records).toBe(1), 10_000)
  const [resumed] = await client.resume()
  expect([resumed?.error, charges]).toEqual([expect.objectContaining({ code: 'ONCE_GONE', status: 410 }), 1])
  expect(await client.state('pay order 7')).toBe('stopped')
})
