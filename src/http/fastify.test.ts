import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { effect, openWorld, type QueryTx, type World } from '../../test/http/world.ts'
import { idempotency } from '../entry/fastify.ts'
import type { Operation } from '../index.ts'
import { Client } from '../testing/http-contract/client.ts'

let world: World
let app: FastifyInstance
beforeEach(async () => {
  world = await openWorld('sqlite')
  app = Fastify({ forceCloseConnections: true })
})
afterEach(async () => {
  await app.close()
  await world.close()
})

type Handler = (request: FastifyRequest, reply: FastifyReply, op: Operation<QueryTx, {}>) => unknown

test('every way to answer is held and comes back', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const ways: Record<string, Handler> = {
    returned: async (_request, _reply, { tx, key }) => {
      await effect(tx, key)
      return { returned: true }
    },
    'return-reply': async (_request, reply, { tx, key }) => {
      await effect(tx, key)
      return reply.code(201).send({ sent: true })
    },
    'await-reply': async (_request, reply, { tx, key }) => {
      await effect(tx, key)
      await reply.code(201).send({ sent: true })
    },
    'send-without-return': async (_request, reply, { tx, key }) => {
      await effect(tx, key)
      void reply.send('sent')
    },
    'send-before-the-effect': async (_request, reply, { tx, key }) => {
      void reply.send('early')
      await effect(tx, key)
    },
    callback: (_request, reply, { tx, key }) => {
      void effect(tx, key).then(() => setTimeout(() => void reply.send('later'), 10))
    },
    stream: async (_request, reply, { tx, key }) => {
      await effect(tx, key)
      return reply.type('text/plain').send(Readable.from(['a', 'b']))
    },
    raw: async (_request, reply, { tx, key }) => {
      await effect(tx, key)
      reply.raw.setHeader('etag', '"raw"')
      reply.raw.end('raw')
    },
    redirect: async (_request, reply) => reply.redirect('/there', 303),
    nothing: async () => undefined,
  }
  for (const [name, handler] of Object.entries(ways)) app.post(`/${name}`, idempotent(handler))
  const client = new Client(await app.listen({ port: 0 }))
  for (const name of Object.keys(ways)) {
    const key = client.newKey()
    const path = `/${name}`
    const first = await client.send({ path, key })
    const second = await client.send({ path, key })
    expect([name, second.status, second.text]).toEqual([name, first.status, first.text])
    expect(first.status).toBeLessThan(400)
    for (const header of ['content-type', 'etag', 'location']) {
      expect([name, second.headers.get(header)]).toEqual([name, first.headers.get(header)])
    }
    expect([name, second.headers.get('idempotent-replayed')]).toEqual([name, 'true'])
    expect([name, await world.effects(key)]).toEqual([name, name === 'redirect' || name === 'nothing' ? 0 : 1])
  }
})

test('hooks: onRequest headers stay on replays and failures, onSend is stored', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  app.addHook('onRequest', async (_request, reply) => void reply.header('access-control-allow-origin', '*'))
  app.addHook('onSend', async (_request, _reply, payload) =>
    typeof payload === 'string' ? payload.toUpperCase() : payload,
  )
  app.post(
    '/x',
    idempotent(async () => 'text'),
  )
  const client = new Client(await app.listen({ port: 0 }))
  const key = client.newKey()
  world.failNextCommit('lost')
  for (const [status, text] of [
    [503, ''],
    [200, 'TEXT'],
    [200, 'TEXT'],
  ] as const) {
    const seen = await client.send({ path: '/x', key })
    expect([seen.status, seen.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
    if (text) expect(seen.text).toBe(text)
  }
})

test('setErrorHandler decides', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  app.setErrorHandler(async (_error, _request, reply) => reply.code(402).send({ handled: true }))
  app.post(
    '/x',
    idempotent(async (_request, reply, { tx, key }) => {
      world.ran(key)
      await effect(tx, key)
      void reply.header('x-mine', '1')
      throw new Error('x')
    }),
  )
  const client = new Client(await app.listen({ port: 0 }))
  const key = client.newKey()
  for (const replayed of [null, 'true']) {
    const seen = await client.send({ path: '/x', key })
    expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([
      402,
      '{"handled":true}',
      replayed,
    ])
  }
  expect([world.runs(key), await world.effects(key)]).toEqual([1, 0])
})

test('a client that leaves while the handler returns nothing', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  app.post(
    '/x',
    idempotent(async (_request, reply, { tx, key }) => {
      world.ran(key)
      await effect(tx, key)
      await sleep(200)
      void reply.code(202)
    }),
  )
  const client = new Client(await app.listen({ port: 0 }))
  const key = client.newKey()
  await client.leave({ path: '/x', key }, 50)
  await sleep(400)
  const seen = await client.send({ path: '/x', key })
  expect([seen.status, seen.headers.get('idempotent-replayed'), world.runs(key)]).toEqual([202, 'true', 1])
})

test("a hook's own `send` of a reply is called, and stays", async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const seen: unknown[] = []
  app.addHook('preHandler', async (_request, reply) => {
    const send = reply.send.bind(reply)
    reply.send = (payload) => {
      seen.push(payload)
      return send(payload)
    }
  })
  app.post(
    '/wrapped',
    idempotent(async (_request, reply) => reply.send({ wrapped: true })),
  )
  const response = await app.inject({ method: 'POST', url: '/wrapped', headers: { 'idempotency-key': 'w' } })
  expect([response.statusCode, response.body]).toEqual([200, '{"wrapped":true}'])
  expect(seen).toEqual([{ wrapped: true }])
})
