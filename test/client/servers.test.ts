import { once as happens } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import axios from 'axios'
import ky from 'ky'
import { Agent, fetch as undiciFetch } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { idempotentClient, memoryStorage } from '../../src/entry/client.ts'
import { idempotency } from '../../src/entry/node.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { stripeLike } from './support/stripe-like.ts'

const QUICK = { retry: { base: '5ms', max: '20ms' } } as const
const JSON_HEADERS = { 'content-type': 'application/json' }

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await happens(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Our server. It can lose answers, and its handler counts. */
let folder: string
let url: string
let server: Server
let runs = 0
let lost = 0
const once = { close: async (): Promise<void> => {} }
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'client-servers-'))
  const instance = effectivelyOnce({
    namespace: 'shop',
    store: sqliteStore({ file: join(folder, 'shop.db') }),
    sweep: false,
  })
  await instance.migrate()
  once.close = async () => void (await instance.close())
  const idempotent = idempotency(instance, { scope: 'global', onError: () => {} })
  const charge = idempotent(async (req, res) => {
    const { amount } = JSON.parse(await text(req)) as { amount: number }
    if (amount > 100) return res.writeHead(402, JSON_HEADERS).end('{"error":"declined"}')
    runs += 1
    return res.writeHead(201, JSON_HEADERS).end(JSON.stringify({ run: runs }))
  })
  server = createServer((req, res) => {
    if (req.url === idempotent.policyPath) return idempotent.policyHandler(req, res)
    if (lost > 0) {
      lost -= 1
      res.write = res.end = () => req.socket.destroy() as never
    }
    return charge(req, res)
  })
  url = await listening(server)
})
afterAll(async () => {
  server?.closeAllConnections()
  server?.close()
  await once.close()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(() => {
  runs = 0
  lost = 0
})

const post = (amount: number): RequestInit => ({
  method: 'POST',
  headers: JSON_HEADERS,
  body: JSON.stringify({ amount }),
})

describe('our server', () => {
  it('runs once when answers are lost, and marks the replay', async () => {
    lost = 2
    const response = await idempotentClient(QUICK).fetch(`${url}/charges`, post(5))
    expect([response.status, response.replayed, await response.json(), runs]).toEqual([201, true, { run: 1 }, 1])
  })

  it('stores a refusal, which is the answer', async () => {
    lost = 1
    const client = idempotentClient(QUICK)
    const response = await client.fetch(`${url}/charges`, post(500), { name: 'pay 7' })
    expect([response.status, response.replayed, runs]).toEqual([402, true, 0])
    expect([await client.state('pay 7'), await client.pending()]).toEqual(['none', []])
  })

  it('refuses a key that was used for another request, with our code', async () => {
    const storage = memoryStorage()
    await idempotentClient({ ...QUICK, storage }).fetch(`${url}/charges`, post(5), { key: 'order-7' })
    const other = idempotentClient(QUICK).fetch(`${url}/charges`, post(6), { key: 'order-7' })
    await expect(other).rejects.toMatchObject({ code: 'ONCE_MISMATCH', status: 422, call: { key: 'order-7' } })
  })

  it('publishes the retention after which a call is no longer sent', async () => {
    const storage = memoryStorage()
    const client = idempotentClient({ ...QUICK, storage, retry: { attempts: 1 } })
    lost = 1
    await expect(client.fetch(`${url}/charges`, post(5), { name: 'old' })).rejects.toMatchObject({
      code: 'ONCE_CALL_PENDING',
    })
    const [stored = ''] = await storage.list()
    // 24 hours of answers and 7 days of refusals.
    const aged = (days: number): string =>
      JSON.stringify({ ...(JSON.parse(stored) as object), since: Date.now() - days * 24 * 3_600_000 })
    await storage.swap('old', stored, aged(9))
    expect(await client.resume()).toEqual([
      expect.objectContaining({ error: expect.objectContaining({ code: 'ONCE_GONE' }) as unknown }),
    ])
    await client.forget('old')
    await storage.add('old', aged(6))
    const [resumed] = await client.resume()
    expect([resumed?.response?.status, runs]).toEqual([201, 1])
  })
})

describe('a server like Stripe', () => {
  const like = stripeLike()
  let base: string
  beforeAll(async () => {
    base = await listening(like.server)
  })
  afterAll(() => {
    like.server.closeAllConnections()
    like.server.close()
  })
  const client = (): ReturnType<typeof idempotentClient> => idempotentClient({ ...QUICK, server: 'stripe' })

  it('charges once when an answer is lost, or two tabs ask at once', async () => {
    like.next.push('lose the answer')
    const response = await client().fetch(`${base}/v1/charges`, post(5))
    expect([response.replayed, like.charges.length]).toEqual([true, 1])
    like.next.push('be slow')
    const both = await Promise.all([1, 2].map(() => client().fetch(`${base}/v1/charges`, post(6), { key: 'tabs' })))
    expect([both.map(({ status }) => status), like.charges.length]).toEqual([[200, 200], 2])
  })

  it('stops at another body and at a stored failure', async () => {
    await client().fetch(`${base}/v1/charges`, post(7), { key: 'seven' })
    const other = client().fetch(`${base}/v1/charges`, post(8), { key: 'seven' })
    await expect(other).rejects.toMatchObject({ code: 'ONCE_MISMATCH', status: 400 })
    like.next.push('fail')
    const failed = client()
    const call = failed.fetch(`${base}/v1/charges`, post(9), { name: 'nine' })
    await expect(call).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN', status: 500 })
    expect(await failed.pending()).toEqual([expect.objectContaining({ name: 'nine', stopped: 'ONCE_OUTCOME_UNKNOWN' })])
  })
})

describe('HTTP clients', () => {
  const withKey = { ...JSON_HEADERS, 'idempotency-key': 'order-8' }

  it('undici: its fetch, with a dispatcher of its own', async () => {
    const dispatcher = new Agent()
    let dispatched = 0
    const counting = dispatcher.compose((dispatch) => (options, handler) => {
      dispatched += 1
      return dispatch(options, handler)
    })
    lost = 1
    const client = idempotentClient({
      ...QUICK,
      fetch: (to, init) => undiciFetch(to, { ...init, dispatcher: counting }),
    })
    const response = await client.fetch(`${url}/charges`, post(5))
    expect([response.replayed, runs]).toEqual([true, 1])
    expect(dispatched).toBeGreaterThan(1)
    await dispatcher.close()
  })

  it('axios: its fetch adapter', async () => {
    const client = idempotentClient(QUICK)
    const shop = axios.create({ adapter: 'fetch', env: { fetch: client.fetch } })
    lost = 1
    const first = await shop.post<{ run: number }>(`${url}/charges`, { amount: 5 })
    expect([first.status, first.data, first.headers['idempotent-replayed'], runs]).toEqual([201, { run: 1 }, 'true', 1])
    await shop.post(`${url}/charges`, { amount: 5 }, { headers: withKey })
    const again = await shop.post<{ run: number }>(`${url}/charges`, { amount: 5 }, { headers: withKey })
    expect([again.headers['idempotent-replayed'], runs]).toEqual(['true', 2])
    await expect(shop.post(`${url}/charges`, { amount: 500 })).rejects.toMatchObject({ response: { status: 402 } })
  })

  it('axios: an error of the client keeps its code, also with a response', async () => {
    const fetch = async (): Promise<Response> => Response.json({ down: true }, { status: 503 })
    const client = idempotentClient({ fetch, retry: { attempts: 1 } })
    const shop = axios.create({ adapter: 'fetch', env: { fetch: client.fetch } })
    const call = shop.post(`${url}/charges`, { amount: 5 })
    await expect(call).rejects.toMatchObject({ code: 'ONCE_CALL_PENDING', response: { status: 503 } })
  })

  it('ky: its option fetch, without its own retries', async () => {
    const client = idempotentClient(QUICK)
    const shop = ky.create({ fetch: client.fetch, retry: 0 })
    lost = 1
    const first = await shop.post(`${url}/charges`, { json: { amount: 5 } })
    expect([first.status, first.headers.get('idempotent-replayed'), await first.json(), runs]).toEqual([
      201,
      'true',
      { run: 1 },
      1,
    ])
    await expect(shop.post(`${url}/charges`, { json: { amount: 500 } })).rejects.toMatchObject({
      response: { status: 402 },
    })
    expect(await client.pending()).toEqual([])
  })
})
