import { spawn } from 'node:child_process'
import { once as happens } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { compiled } from './run.ts'

const TIMEOUT_MS = 120_000
const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }
let folder: string
let receiver: Server

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'once-relay-'))
})
afterEach(async () => {
  receiver.close()
  receiver.closeAllConnections()
  await rm(folder, { recursive: true, force: true })
})

/** A database with one event for each order, and a receiver. */
async function relayTo(orders: string[], answer: RequestListener, ...args: string[]) {
  receiver = createServer(answer)
  await happens(receiver.listen(0, '127.0.0.1'), 'listening')
  const file = join(folder, 'shop.db')
  const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), events, sweep: false })
  await once.migrate()
  await once.run({ scope: 's', key: 'a', input: 1 }, async ({ publish }) => {
    for (const order of orders) await publish('order.placed', { order })
  })
  await once.close()
  const to = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
  const all = [join(compiled(), 'cli', 'main.js'), 'relay', '--to', to, '--url', file, ...args]
  const env = { ...process.env, WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}` }
  const child = spawn(process.execPath, all, { env })
  const ran = { child, ended: happens(child, 'exit'), text: '' }
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (ran.text += String(chunk)))
  return ran
}

it('says what is wrong with its destination', { timeout: TIMEOUT_MS }, async () => {
  let requests = 0
  const ran = await relayTo(['a'], (_request, response) => {
    requests++
    response.writeHead(503).end()
  })
  try {
    await vi.waitFor(() => expect(requests).toBeGreaterThan(2), { timeout: TIMEOUT_MS / 2 })
    const [first, ...troubles] = ran.text.trim().split('\n')
    expect(first).toMatch(/^relaying from /)
    expect(troubles[0]).toContain('503')
  } finally {
    ran.child.kill('SIGTERM')
    await ran.ended
  }
})

it('says that its destination refuses every event', { timeout: TIMEOUT_MS }, async () => {
  const ran = await relayTo(['a', 'b', 'c'], (_request, response) => void response.writeHead(500).end())
  try {
    const words = /trouble in the relay: 'webhook .*' refused 1\d times in a row, and no event was sent: .* status 500/
    await vi.waitFor(() => expect(ran.text).toMatch(words), { timeout: TIMEOUT_MS / 2 })
  } finally {
    ran.child.kill('SIGTERM')
    await ran.ended
  }
})

it.each([
  ['are parked', 410],
  ['are tried again', 500],
])('--drain ends with code 3 when events %s', { timeout: TIMEOUT_MS }, async (_, status) => {
  const ran = await relayTo(['a', 'b', 'c'], (_request, response) => void response.writeHead(status).end(), '--drain')
  expect((await ran.ended)[0]).toBe(3)
  expect(ran.text).toMatch(
    /0 events sent to webhook .*; 3 events failed(: Error: the webhook was answered with status 500)?$/m,
  )
  expect(ran.text).toContain(`status ${status}`)
})

it('--drain stops at SIGTERM', { timeout: TIMEOUT_MS }, async () => {
  const ran = await relayTo(['a'], () => {}, '--drain')
  await happens(receiver, 'request')
  const at = performance.now()
  ran.child.kill('SIGTERM')
  expect((await ran.ended)[0]).toBe(3)
  expect(ran.text).toMatch(/0 events sent to webhook .*; stopped before the end$/m)
  // The sink itself waits for 30 s.
  expect(performance.now() - at).toBeLessThan(20_000)
})
