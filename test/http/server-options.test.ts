import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import {
  connect,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import type { PushedConsumer } from '../../src/consumer/types.ts'
import { idempotency } from '../../src/entry/node.ts'
import { nodeWebhook } from '../../src/http/webhook-mounts.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen } from './world.ts'

const place = worldOfEachTest()

it.each(['the server', 'the handler'])('a client that waits for 100 is told to go on by %s, once', async (who) => {
  const idempotent = idempotency(place.world.once, { scope: 'global', deadline: '600ms', onError: () => {} })
  const server = createServer()
  const listener = idempotent(async (req, res) => {
    if (who === 'the handler') res.writeContinue()
    res.writeHead(201).end(`read ${await text(req)}`)
  })
  server.on('request', listener)
  if (who === 'the handler') server.on('checkContinue', listener)
  place.started = await listen(server)
  for (const replayed of [undefined, 'true']) {
    const sent = request(place.started.base, {
      method: 'POST',
      headers: { expect: '100-continue', 'idempotency-key': 'k', 'content-length': 3 },
    })
    let told = 0
    sent.on('continue', () => {
      told++
      sent.end('abc')
    })
    sent.flushHeaders()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    expect([response.statusCode, await text(response), response.headers['idempotent-replayed']]).toEqual([
      201,
      'read abc',
      replayed,
    ])
    expect(told).toBe(1)
  }
})

it('the same over HTTP/2', async () => {
  const idempotent = idempotency(place.world.once, { scope: 'global', deadline: '600ms', onError: () => {} })
  const listener = idempotent(async (req, res) => {
    res.writeContinue()
    res.writeHead(201).end(`read ${await text(req)}`)
  }) as unknown as (req: Http2ServerRequest, res: Http2ServerResponse) => void
  const server = createHttp2Server()
  server.on('request', listener)
  server.on('checkContinue', listener)
  place.started = await listen(server as unknown as Server)
  const session = connect(place.started.base)
  place.started = { ...place.started, close: async () => void server.close(session.destroy.bind(session)) }
  const head = { ':method': 'POST', expect: '100-continue', 'idempotency-key': 'k', 'content-length': 3 }
  for (const replayed of [undefined, 'true']) {
    const sent = session.request(head)
    let told = 0
    sent.on('continue', () => {
      told++
      sent.end('abc')
    })
    const [headers] = (await once(sent, 'response')) as [Record<string, unknown>]
    expect([headers[':status'], await text(sent), headers['idempotent-replayed']]).toEqual([201, 'read abc', replayed])
    expect(told).toBe(1)
  }
})

it('a webhook whose sender waits for 100 gets its body', async () => {
  const receive: PushedConsumer['receive'] = async ({ body }) => ({ status: 200, headers: {}, body: `${body.length}` })
  const mounted = nodeWebhook({ receive } as PushedConsumer)
  const server = createServer((req, res) => void mounted(req, res))
  server.on('checkContinue', (req, res) => void mounted(req, res))
  place.started = await listen(server)
  const sent = request(place.started.base, { method: 'POST', headers: { expect: '100-continue', 'content-length': 3 } })
  sent.on('continue', () => sent.end('abc'))
  sent.flushHeaders()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  expect([response.statusCode, await text(response)]).toEqual([200, '3'])
})

it.each([
  ['POST', 204],
  ['HEAD', 200],
])('a server that throws over bytes where none may be sends %s with %i after its commit', async (method, status) => {
  const idempotent = idempotency(place.world.once, { scope: 'global', methods: ['POST', 'HEAD'], onError: () => {} })
  const listener = idempotent(async (_req, res, { tx, key }) => {
    await effect(tx, key)
    res.statusCode = status
    res.end('made')
  })
  place.started = await listen(createServer({ rejectNonStandardBodyWrites: true }, listener))
  for (const replayed of [undefined, 'true']) {
    const sent = request(place.started.base, { method, headers: { 'idempotency-key': 'k' } })
    const [response] = (await once(sent.end(), 'response')) as [IncomingMessage]
    response.resume()
    expect([response.statusCode, response.headers['idempotent-replayed']]).toEqual([status, replayed])
  }
  expect(await place.world.effects('k')).toBe(1)
})
