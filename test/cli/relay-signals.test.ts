import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { cli, compiled } from './run.ts'

const TIMEOUT_MS = 120_000
const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }
const WEBHOOK_SECRET = `whsec_${Buffer.from('a secret of 24 bytes or so').toString('base64')}`

describe('relay tells on standard error', () => {
  let folder: string
  let server: Server
  let status = 204
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-relay-'))
    server = createServer((request, response) => {
      request.resume().on('end', () => response.writeHead(status).end())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** The arguments of a relay of these orders to the webhook. */
  async function relayed(orders: readonly string[]): Promise<string[]> {
    const file = join(folder, 'shop.db')
    const shop = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), events, sweep: false })
    await shop.migrate()
    for (const order of orders)
      await shop.run({ scope: 's', key: order, input: order }, (op) => op.publish('order.placed', { order }))
    await shop.close()
    return ['relay', '--to', `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, '--url', file]
  }

  it('that events were parked, and how many', { timeout: TIMEOUT_MS }, async () => {
    status = 410
    const args = await relayed(['a', 'b', 'c'])
    const { code, err } = await cli([...args, '--drain'], { env: { WEBHOOK_SECRET } })
    const lines = err.trimEnd().split('\n')
    const line = /^parked: event \d+\/\d+ for '.*': .*410\. See: effectively-once parked list/
    expect(code).toBe(3)
    for (const one of lines) expect(one).toMatch(line)
    const more = lines.map((one) => Number(/ \(and (\d+) more\)$/.exec(one)?.[1] ?? 0))
    expect(more.reduce((sum, n) => sum + n, lines.length)).toBe(3)
  })

  it('that the webhook is down, while it goes on', { timeout: TIMEOUT_MS }, async () => {
    status = 503
    const args = await relayed(['a'])
    const env = { ...process.env, WEBHOOK_SECRET }
    const relay = spawn(process.execPath, [join(compiled(), 'cli', 'main.js'), ...args], { env })
    let err = ''
    relay.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
    const ended = once(relay, 'exit')
    await expect.poll(() => err, { timeout: 30_000 }).toMatch(/^trouble of the relay: .*503/m)
    status = 204
    relay.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })
})
