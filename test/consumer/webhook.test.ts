import { createHmac } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { webhook as expressWebhook } from '../../src/entry/express.ts'
import { webhook as fastifyWebhook } from '../../src/entry/fastify.ts'
import { webhook as fetchWebhook } from '../../src/entry/fetch.ts'
import { githubSource } from '../../src/entry/github.ts'
import { webhook as honoWebhook } from '../../src/entry/hono.ts'
import { webhook as koaWebhook } from '../../src/entry/koa.ts'
import { webhook as nodeWebhook } from '../../src/entry/node.ts'
import { stripeSource } from '../../src/entry/stripe.ts'
import { standardWebhooksSource, webhookSink } from '../../src/entry/webhook.ts'
import { effectivelyOnce, type Consumer } from '../../src/index.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { describeSqlite } from '../support/sqlite.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { events } from './world.ts'

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const OLD_SECRET = 'whsec_plJ3nmyCDGBKInavdOK15jsl'

type Paid = { id: string; type: 'invoice.paid'; data: { object: { id: string; amount: number } } }
type Voided = { id: string; type: 'invoice.voided'; data: { object: { id: string } } }

const stripeBody = (id = 'evt_1', type = 'invoice.paid'): string =>
  JSON.stringify({ id, type, data: { object: { id: 'in_1', amount: 500 } }, account: 'acct_1' })

function voided(handle: (...args: Parameters<RequestListener>) => Promise<unknown>): RequestListener {
  return (req, res) => void handle(req, res)
}

function stripeHeaders(body: string, { secret = SECRET, ageMs = 0 } = {}): Record<string, string> {
  const t = Math.floor((Date.now() - ageMs) / 1000)
  const v1 = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
  return { 'content-type': 'application/json', 'stripe-signature': `t=${t},v1=${'0'.repeat(64)},v1=${v1},v0=abc` }
}

describeSqlite('a webhook', (lab) => {
  let store: SqliteStore
  const closing: (() => unknown)[] = []
  beforeEach(async () => {
    store = await lab.store()
  })
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close()
  })

  const applied = async (): Promise<string[]> =>
    (await store.transaction((tx) => tx.query<{ key: string }>('select key from charge order by id'))).rows.map(
      ({ key }) => key,
    )

  function billing(fail = 0): Consumer {
    const once = effectivelyOnce({ namespace: 'hooks', store, events, guard: 'off', sweep: false })
    let failures = fail
    return once.consumer(
      'billing',
      { from: stripeSource<Paid | Voided>({ secret: [SECRET, OLD_SECRET] }), attempts: 3 },
      {
        'invoice.paid': async ({ id, data: { object: paid } }, { tx }) => {
          await tx.query('insert into charge (key, amount) values ($1, $2)', [id, paid.amount])
          if (failures-- > 0) throw new Error('not yet')
        },
      },
    )
  }

  async function listen(listener: RequestListener): Promise<string> {
    const server = createServer(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closing.push(() => new Promise((resolve) => server.close(resolve)))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  }

  const mounts: Record<string, (consumer: Consumer) => Promise<string>> = {
    node: (consumer) => listen(voided(nodeWebhook(consumer))),
    express: (consumer) => {
      const app = express()
      app.post('/hook', expressWebhook(consumer))
      app.use(express.json())
      return listen(app)
    },
    koa: (consumer) => {
      const app = new Koa()
      app.use(koaWebhook(consumer))
      return listen(voided(app.callback()))
    },
    async fastify(consumer) {
      const app = fastify()
      app.post('/hook', fastifyWebhook(consumer))
      closing.push(() => app.close())
      return `${await app.listen({ port: 0, host: '127.0.0.1' })}/hook`
    },
  }

  const post = (url: string, body: string, headers: Record<string, string>): Promise<Response> =>
    fetch(url, { method: 'POST', body, headers })

  describe.each(Object.entries(mounts))('on %s', (_name, mount) => {
    it('applies an event once, and refuses what is not signed', async () => {
      const url = await mount(billing())
      const body = stripeBody()
      expect((await post(url, body, stripeHeaders(body))).status).toBe(200)
      expect((await post(url, body, stripeHeaders(body))).status).toBe(200)
      expect((await post(url, body, stripeHeaders(body, { secret: OLD_SECRET }))).status).toBe(200)
      const wrong = await post(url, body, stripeHeaders(body, { secret: 'whsec_somebody_else' }))
      expect([wrong.status, wrong.headers.get('content-type')?.split(';')[0]]).toEqual([
        401,
        'application/problem+json',
      ])
      expect(((await wrong.json()) as { type: string }).type).toBe('signature-invalid')
      const tampered = await post(url, body.replace('500', '900'), stripeHeaders(body))
      expect(tampered.status).toBe(401)
      expect((await post(url, 'not json', stripeHeaders('not json'))).status).toBe(400)
      expect(
        (await post(url, stripeBody('evt_2', 'other.thing'), stripeHeaders(stripeBody('evt_2', 'other.thing')))).status,
      ).toBe(200)
      expect(await applied()).toEqual(['evt_1'])
    })
  })

  it('speaks Request and Response', async () => {
    const consumer = billing()
    const body = stripeBody()
    const request = (): Request => new Request('http://x/hook', { method: 'POST', body, headers: stripeHeaders(body) })
    expect((await fetchWebhook(consumer)(request())).status).toBe(200)
    const app = new Hono()
    app.post('/hook', honoWebhook(consumer))
    expect((await app.request(request())).status).toBe(200)
    expect(await applied()).toEqual(['evt_1'])
  })

  it('a stale or future timestamp is refused, also under a good signature', async () => {
    const url = await mounts['node']!(billing())
    const body = stripeBody()
    for (const ageMs of [301_000, -302_000]) {
      const answer = await post(url, body, stripeHeaders(body, { ageMs }))
      expect([answer.status, ((await answer.json()) as { type: string }).type]).toEqual([401, 'timestamp-stale'])
    }
    expect((await post(url, body, stripeHeaders(body, { ageMs: 250_000 }))).status).toBe(200)
    expect((await post(url, body, {})).status).toBe(401)
  })

  it('a failure is answered 500 until the last attempt, which parks it', async () => {
    const consumer = billing(2)
    const url = await mounts['node']!(consumer)
    const body = stripeBody()
    expect((await post(url, body, stripeHeaders(body))).status).toBe(500)
    expect((await post(url, body, stripeHeaders(body))).status).toBe(500)
    expect((await post(url, body, stripeHeaders(body))).status).toBe(200)
    expect(await applied()).toEqual(['evt_1'])
    const other = await mounts['node']!(billing(9))
    const again = stripeBody('evt_9')
    const statuses = []
    for (let i = 0; i < 4; i++) statuses.push((await post(other, again, stripeHeaders(again))).status)
    expect(statuses).toEqual([500, 500, 200, 200])
    const [letter] = await store.inbox.letters.list({ filter: { consumer: 'billing' }, limit: 5 })
    expect(letter).toMatchObject({ message: 'evt_9', tenant: 'acct_1', reason: 'failed', attempts: 3 })
  })

  it('a body that a parser took is a clear error, one that was kept is fine', async () => {
    const parsed = express()
    parsed.use(express.json())
    parsed.post('/hook', expressWebhook(billing()))
    const body = stripeBody()
    const lost = await post(await listen(parsed), body, stripeHeaders(body))
    expect([lost.status, ((await lost.json()) as { type: string }).type]).toEqual([500, 'body-unseen'])
    const kept = express()
    kept.use(express.json({ verify: (req, _res, bytes) => void Object.assign(req, { rawBody: bytes }) }))
    kept.post('/hook', expressWebhook(billing()))
    expect((await post(await listen(kept), body, stripeHeaders(body))).status).toBe(200)
  })

  it('GitHub: signed deliveries by what is signed, a ping is answered', async () => {
    const once = effectivelyOnce({ namespace: 'hooks', store, guard: 'off', sweep: false })
    const consumer = once.consumer(
      'ci',
      { from: githubSource<{ push: { ref: string }; issues: { action: string } }>({ secret: SECRET }) },
      {
        push: async ({ id, payload }, { tx }) =>
          void (await tx.query('insert into charge (key, amount) values ($1, $2)', [id, payload.ref.length])),
      },
    )
    const url = await mounts['node']!(consumer)
    const send = (type: string, delivery: string, secret = SECRET): Promise<Response> => {
      const body = JSON.stringify({ ref: 'main', repository: { owner: { login: 'octo' } } })
      const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
      return post(url, body, {
        'x-github-event': type,
        'x-github-delivery': delivery,
        'x-hub-signature-256': signature,
      })
    }
    expect(await (await send('ping', 'd0')).text()).toBe('pong')
    expect((await send('push', 'd1')).status).toBe(200)
    expect((await send('push', 'd1')).status).toBe(200)
    expect((await send('push', 'd2', 'another secret')).status).toBe(401)
    expect((await send('issues', 'd3')).status).toBe(200)
    // What is signed is the body alone: under another id it is the same delivery.
    expect((await send('push', 'd4')).status).toBe(200)
    expect(await applied()).toEqual(['d1'])
  })

  it('Standard Webhooks: what our own sink sends is applied once, also when it is sent again', async () => {
    const once = effectivelyOnce({ namespace: 'hooks', store, guard: 'off', sweep: false })
    const consumer = once.consumer(
      'steps',
      { from: standardWebhooksSource({ secret: [OLD_SECRET, SECRET], events }) },
      {
        'step.made': async ({ id, data }, { tx }) =>
          void (await tx.query('insert into charge (key, amount) values ($1, $2)', [id, data.n])),
      },
    )
    const url = await mounts['node']!(consumer)
    const sink = webhookSink({ url, secret: SECRET })
    const event = eventFor('a', 1)
    const { signal } = new AbortController()
    const resent = { ...event, brokerId: `${event.id}:r1`, deduplicationId: `${event.id}:r1` }
    for (const sent of [event, event, resent]) {
      expect(await sink.send([sent], { signal })).toEqual([{ kind: 'sent' }])
    }
    expect(await applied()).toEqual([event.id])
    const stranger = webhookSink({ url, secret: 'whsec_c29tZWJvZHkgZWxzZQ==' })
    expect(await stranger.send([eventFor('a', 2)], { signal })).toMatchObject([{ kind: 'failed', retryable: true }])
  })

  it('a pulled consumer cannot be mounted', () => {
    const once = effectivelyOnce({ namespace: 'hooks', store, events, guard: 'off', sweep: false })
    const pulled = once.consumer('pulled', { from: once.outbox }, { 'step.made': async () => {} })
    expect(() => nodeWebhook(pulled)).toThrow('ONCE_OPTION_INVALID')
  })
})
