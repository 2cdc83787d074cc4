import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import compression from 'compression'
import express from 'express'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { streamText } from 'hono/streaming'
import { expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { listen } from './world.ts'

const place = worldOfEachTest()

it('a number beyond a double, or one nested too deep, is the client’s mistake also where a parser ran first', async () => {
  const app = express()
  app.use(express.json())
  app.post(
    '/orders',
    onExpress(place.world.once, { scope: 'global' })((_req, res) => res.json({})),
  )
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  const deep = '['.repeat(300) + ']'.repeat(300)
  for (const body of ['{"a":1e999}', deep]) {
    const seen = await client.send({ key: client.newKey(), body })
    expect([seen.status, JSON.parse(seen.text).code]).toEqual([400, 'ONCE_BODY_INVALID'])
  }
})

it('compression inside an async handler', async () => {
  const app = express()
  const compress = compression({ threshold: 0 })
  app.post(
    '/orders',
    onExpress(place.world.once, { scope: 'global' })(async (req, res) => {
      compress(req, res, () => {})
      res.status(201).json({ text: 'x'.repeat(2000) })
    }),
  )
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  const key = client.newKey()
  for (let n = 0; n < 2; n++) {
    const seen = await client.send({ key, headers: { 'accept-encoding': 'gzip' } })
    expect(seen.status).toBe(201)
    expect(seen.headers.get('content-encoding')).toBe('gzip')
  }
})

it('a router that is mounted under somebody’s token tells nobody the token', async () => {
  const app = express()
  const router = express.Router()
  router.post(
    '/orders',
    onExpress(place.world.once, { scope: 'global' })((_req, res) => res.json({})),
  )
  app.use('/t/:token', router)
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  await client.send({ path: '/t/secret-token/orders', key: client.newKey() })
  expect(place.world.signals.length).toBeGreaterThan(0)
  expect(JSON.stringify(place.world.signals)).not.toContain('secret-token')
})

it('a body without an end is not pulled past the deadline', async () => {
  let pulled = 0
  const handle = onFetch(place.world.once, { scope: 'global', deadline: '200ms' })(
    async () =>
      new Response(
        new ReadableStream({
          async pull(controller) {
            pulled++
            await sleep(10)
            controller.enqueue(new Uint8Array([120]))
          },
        }),
      ),
  )
  const request = new Request('http://x/o', { method: 'POST', body: '1', headers: { 'idempotency-key': '"k"' } })
  expect((await handle(request)).status).toBe(503)
  await sleep(50)
  const before = pulled
  await sleep(150)
  expect(pulled).toBe(before)
})

it('a handler of node:http that is mounted under two paths is two routes', async () => {
  const app = express()
  const idempotent = onNode(place.world.once, { scope: 'global' })
  for (const path of ['/v1', '/v2'])
    app.use(
      path,
      idempotent(async (_req, res) => res.end(path)),
    )
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  const key = client.newKey()
  expect((await client.send({ path: '/v1/orders', key })).text).toBe('/v1')
  expect((await client.send({ path: '/v2/orders', key })).status).toBe(422)
})

it('Hono: one protection inside another is a mistake that no retry mends', async () => {
  const idempotent = onHono(place.world.once, { scope: 'global' })
  const app = new Hono()
  app.onError((error, c) => c.text(error.message, 500))
  app.use('/orders', idempotent())
  app.post('/orders', idempotent(), (c) => c.text('made'))
  const headers = { 'idempotency-key': 'k' }
  const seen = await app.request('/orders', { method: 'POST', headers })
  expect([seen.status, await seen.text()]).toEqual([500, expect.stringContaining('ONCE_UNSUPPORTED')])
})

it('Hono and fetch: an answer that says it is sent in chunks is one that can be read', async () => {
  const app = new Hono()
  app.post('/hono', onHono(place.world.once, { scope: 'global' })(), (c) =>
    streamText(c, async (stream) => void (await stream.write('some text'))),
  )
  const onWeb = onFetch(place.world.once, { scope: 'global' })(
    async () => new Response('some text', { headers: { 'transfer-encoding': 'chunked' } }),
  )
  app.post('/fetch', (c) => onWeb(c.req.raw))
  const listener = getRequestListener(app.fetch)
  place.started = await listen(createServer((req, res) => void listener(req, res)))
  const client = new Client(place.started.base)
  for (const path of ['/hono', '/fetch']) {
    const key = client.newKey()
    for (let n = 0; n < 2; n++) expect((await client.send({ path, key })).text).toBe('some text')
  }
})

it('Hono and fetch: a stream of texts is their bytes, and one of anything else is no answer', async () => {
  const streamOf = (...chunks: unknown[]): ReadableStream =>
    new ReadableStream({
      start: (controller) => {
        for (const chunk of chunks) controller.enqueue(chunk)
        controller.close()
      },
    })
  const answers: Record<string, () => Response> = {
    text: () => new Response(streamOf('ä')),
    texts: () => new Response(streamOf('ä', 'b')),
    wide: () => new Response(streamOf(new Uint16Array([300]))),
  }
  const app = new Hono()
  app.onError((error, c) => c.text(error.name, 500))
  const answer = async ({ url }: Request): Promise<Response> => answers[new URL(url).search.slice(1)]?.() as Response
  app.post('/hono', onHono(place.world.once, { scope: 'global' })(), (c) => answer(c.req.raw))
  const onWeb = onFetch(place.world.once, { scope: 'global' })(answer)
  app.post('/fetch', (c) => onWeb(c.req.raw))
  for (const path of ['/hono', '/fetch'])
    for (const [name, text] of Object.entries({ text: 'ä', texts: 'äb', wide: 'TypeError' }))
      for (let n = 0; n < 2; n++) {
        const headers = { 'idempotency-key': path + name }
        const seen = await app.request(`${path}?${name}`, { method: 'POST', headers })
        expect(await seen.text()).toBe(text)
      }
})

it('Hono and fetch: an answer whose body was read before is no answer', async () => {
  const answer = async (): Promise<Response> => {
    const response = new Response('some text')
    const reader = response.body?.getReader()
    await reader?.read()
    reader?.releaseLock()
    return response
  }
  const app = new Hono()
  app.post('/hono', onHono(place.world.once, { scope: 'global', onError: () => {} })(), answer)
  const onWeb = onFetch(place.world.once, { scope: 'global', onError: () => {} })(answer)
  app.post('/fetch', (c) => onWeb(c.req.raw))
  for (const path of ['/hono', '/fetch']) {
    const seen = await app.request(path, { method: 'POST', headers: { 'idempotency-key': path } })
    expect([seen.status, await seen.text()]).toEqual([500, expect.stringContaining('ONCE_ANSWER_INVALID')])
  }
})

it('the query counts of a target that has a host and no path', async () => {
  const idempotent = onNode(place.world.once, { scope: 'global' })
  place.started = await listen(createServer(idempotent((_req, res) => void res.end('made'))))
  const statusOf = async (path: string): Promise<number | undefined> => {
    const sent = request(place.started?.base ?? '', { method: 'POST', path, headers: { 'idempotency-key': 'k' } }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }
  expect(await statusOf('http://local?amount=1&then=/a')).toBe(200)
  expect(await statusOf('http://local/?then=/a&amount=1')).toBe(200)
  expect(await statusOf('http://local?amount=2&then=/a')).toBe(422)
})

it('a `label` or a `statement` that rejects is one answer, and no unhandled rejection', async () => {
  const unhandled: unknown[] = []
  const seen = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', seen)
  const rejects = (): Promise<never> => Promise.reject(new Error('no such order'))
  const idempotent = onExpress(place.world.once, { scope: 'global', onError: () => {} })
  const app = express()
  app.post(
    '/leased',
    idempotent({ lease: '10s', label: rejects }, (_req, res, { commit }) => commit(() => res.json({}))),
  )
  app.post(
    '/batched',
    // @ts-expect-error -- a statement is not a promise
    idempotent.batched({ statement: rejects, respond: () => ({ status: 201, body: {} }) }),
  )
  app.use(((error, _req, res, _next) => void res.status(500).send(error.message)) as express.ErrorRequestHandler)
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  try {
    const leased = await client.send({ path: '/leased', key: client.newKey() })
    expect([leased.status, leased.text]).toEqual([500, 'no such order'])
    const batched = await client.send({ path: '/batched', key: client.newKey() })
    expect([batched.status, batched.text]).toEqual([500, expect.stringContaining('option-invalid')])
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', seen)
  }
})
