import { createServer } from 'node:http'
import express, { type ErrorRequestHandler } from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { AROUND, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { effect, listen, openWorld, type QueryTx, type Started, type World } from './world.ts'

const isMissing = 'missing' in inject('servers').postgres

const NAMES = [
  'create table names (name text unique deferrable initially deferred)',
  `insert into names values ('taken')`,
]

describe.skipIf(isMissing).each([
  {
    what: 'what the database refuses at the commit is no trouble of the store',
    tables: NAMES,
    statement: `insert into names values ('taken')`,
    problem: { status: 500, code: 'ONCE_ROLLED_BACK', retryable: false },
  },
  {
    what: 'a session that the server ends under a handler is trouble of the store',
    tables: [],
    statement: 'select pg_terminate_backend(pg_backend_pid())',
    problem: { status: 503, code: 'ONCE_STORE_UNAVAILABLE', retryable: true },
  },
])('$what', ({ tables, statement, problem }) => {
  let world: World
  let started: Started | undefined
  beforeEach(async () => {
    world = await openWorld('postgres')
    for (const sql of tables) await world.query(sql)
  })
  afterEach(async () => {
    await started?.close()
    started = undefined
    await world.close()
  })

  const work = async ({ tx, key }: { tx: QueryTx; key: string }): Promise<void> => {
    await effect(tx, key)
    await tx.query(statement)
  }

  it.each(Object.entries(AROUND))('%s', async (_name, open) => {
    const handler: RawHandler = async (res, op) => {
      await work(op)
      res.statusCode = 201
      res.end('made')
    }
    started = await open(world, () => {}, handler)
    const client = impatientClient(started)
    const key = client.newKey()
    for (let n = 0; n < 2; n++) expect(JSON.parse((await client.send({ key })).text)).toMatchObject(problem)
    expect(await world.effects(key)).toBe(0)
  })

  it('fetch and Hono', async () => {
    const onWeb = onFetch(world.once, { scope: 'global' })(async (_request, op) => {
      await work(op)
      return new Response('made')
    })
    const app = new Hono()
    app.post('/orders', onHono(world.once, { scope: 'global' })(), async (c) => {
      await work(c.var.once)
      return c.text('made')
    })
    for (const serve of [onWeb, (request: Request) => app.request(request)]) {
      const headers = { 'idempotency-key': crypto.randomUUID() }
      const seen = await serve(new Request('http://local/orders', { method: 'POST', headers }))
      expect(await seen.json()).toMatchObject(problem)
      expect(await world.effects(headers['idempotency-key'])).toBe(0)
    }
  })
})

describe.skipIf(isMissing)("an error of the handler's that only sounds like a lost session", () => {
  let world: World
  let started: Started | undefined
  beforeEach(async () => {
    world = await openWorld('postgres')
  })
  afterEach(async () => {
    await started?.close()
    started = undefined
    await world.close()
  })

  /** A payment provider has hung up. */
  const hungUp = (): Error => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })

  it.each(Object.entries(AROUND))('is answered by the framework: %s', async (_name, open) => {
    const handler: RawHandler = async (_res, op) => {
      await effect(op.tx, op.key)
      throw hungUp()
    }
    started = await open(world, () => {}, handler)
    const client = impatientClient(started)
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const { status, text } = await client.send({ key })
      expect(status).toBe(500)
      expect(text).not.toContain('ONCE_')
    }
    expect(await world.effects(key)).toBe(0)
  })

  it('is answered under the head that the handler said, and a refusal of the error handler is stored', async () => {
    const app = express()
    app.post(
      '/orders',
      onExpress(world.once, { scope: 'global' })(async (_req, res, { tx, key }) => {
        await effect(tx, key)
        res.status(422).set('x-provider', 'down')
        throw hungUp()
      }),
    )
    const answer: ErrorRequestHandler = (_error, _req, res, _next) => void res.send('handled')
    app.use(answer)
    started = await listen(createServer(app))
    const client = impatientClient(started)
    const key = client.newKey()
    const first = await client.send({ key })
    expect([first.status, first.text, first.headers.get('x-provider')]).toEqual([422, 'handled', 'down'])
    const again = await client.send({ key })
    expect([again.status, again.text, again.headers.get('idempotent-replayed')]).toEqual([422, 'handled', 'true'])
    expect(await world.effects(key)).toBe(0)
  })

  it('keeps the status that the handler said on Fastify', async () => {
    const app = Fastify()
    app.post(
      '/orders',
      onFastify(world.once, { scope: 'global' })(async (_request, reply) => {
        reply.code(502).header('x-provider', 'down')
        throw hungUp()
      }),
    )
    started = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const client = impatientClient(started)
    const { status, headers } = await client.send({ key: client.newKey() })
    expect([status, headers.get('x-provider')]).toEqual([502, 'down'])
  })

  it('is told to the error handler of Hono once', async () => {
    let told = 0
    const app = new Hono()
    app.onError((_error, c) => {
      told++
      return c.text('handled', 502)
    })
    app.post('/orders', onHono(world.once, { scope: 'global' })(), () => Promise.reject(hungUp()))
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const { status } = await app.request('/orders', { method: 'POST', headers })
    expect([status, told]).toEqual([502, 1])
  })
})
