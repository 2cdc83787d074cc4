import 'reflect-metadata'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Controller, type INestApplication, Module, Post, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express, { type Response as ExpressResponse } from 'express'
import Fastify, { type FastifyReply } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent, OnceModule, Op } from '../../src/entry/nest.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import type { LeasedOperation } from '../../src/index.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { listen, type QueryTx, type Started, type World } from './world.ts'

type Leased = Pick<LeasedOperation<QueryTx, {}>, 'step'>
type Answered = Promise<{ status: number; text: string; replayed: string | null }>
type Post = (key: string) => Answered
/** The handler asks the provider, and then answers with this status, without `commit`. */
type Ask = (op: Leased) => Promise<void>
type Open = (world: World, ask: Ask, status: number, started: (one: Started) => void) => Promise<Post>

const LEASED = { lease: '5s' } as const
const BODY = { declined: true }

function postTo(started: Started): Post {
  const client = impatientClient(started)
  return async (key) => {
    const { status, text, headers } = await client.send({ key })
    return { status, text, replayed: headers.get('idempotent-replayed') }
  }
}

function over(handle: (request: Request) => Response | Promise<Response>): Post {
  return async (key) => {
    const headers = { 'idempotency-key': key }
    const seen = await handle(new Request('http://x/orders', { method: 'POST', headers }))
    return { status: seen.status, text: await seen.text(), replayed: seen.headers.get('idempotent-replayed') }
  }
}

function onNest(create: (root: new () => object) => Promise<INestApplication>): Open {
  return async ({ once }, ask, status, started) => {
    class Orders {
      async create(op: Leased, res: ExpressResponse & FastifyReply): Promise<void> {
        await ask(op)
        res.status(status).send(BODY)
      }
    }
    Op()(Orders.prototype, 'create', 0)
    Res()(Orders.prototype, 'create', 1)
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'create') as PropertyDescriptor
    for (const each of [Post('/'), Idempotent(LEASED)]) each(Orders.prototype, 'create', descriptor)
    Controller('/orders')(Orders)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class Root {}
    Module({
      imports: [OnceModule.forRoot({ once, scope: 'global', closeWithin: false, onError: () => {} })],
      controllers: [Orders],
    })(Root)
    const app = await create(Root)
    await app.listen(0, '127.0.0.1')
    const { port } = app.getHttpServer().address() as AddressInfo
    const server = { base: `http://127.0.0.1:${port}`, close: () => app.close() }
    started(server)
    return postTo(server)
  }
}

const SETTINGS = { scope: 'global', onError: () => {} } as const

const ADAPTERS: Record<string, Open> = {
  node: async ({ once }, ask, status, started) => {
    const route = onNode(once, SETTINGS)(LEASED, async (_req, res, op) => {
      await ask(op)
      return res.writeHead(status).end(JSON.stringify(BODY))
    })
    const server = await listen(createServer(route))
    started(server)
    return postTo(server)
  },
  express: async ({ once }, ask, status, started) => {
    const app = express().post(
      '/orders',
      onExpress(once, SETTINGS)(LEASED, async (_req, res, op) => {
        await ask(op)
        return res.status(status).json(BODY)
      }),
    )
    const server = await listen(createServer(app))
    started(server)
    return postTo(server)
  },
  fastify: async ({ once }, ask, status, started) => {
    const app = Fastify({ forceCloseConnections: true })
    app.post(
      '/orders',
      onFastify(once, SETTINGS)(LEASED, async (_request, reply, op) => {
        await ask(op)
        return reply.code(status).send(BODY)
      }),
    )
    const server = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    started(server)
    return postTo(server)
  },
  koa: async ({ once }, ask, status, started) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(once, SETTINGS)(LEASED))
    app.use(async (ctx) => {
      await ask(ctx.state['once'] as Leased)
      ctx.status = status
      ctx.body = BODY
    })
    const server = await listen(createServer((req, res) => void app.callback()(req, res)))
    started(server)
    return postTo(server)
  },
  hono: async ({ once }, ask, status) => {
    const app = new Hono()
    app.post('/orders', onHono(once, SETTINGS)(LEASED), async (c) => {
      await ask(c.var.once)
      return c.json(BODY, status as 402)
    })
    return over((request) => app.fetch(request))
  },
  fetch: async ({ once }, ask, status) =>
    over(
      onFetch(once, SETTINGS)(LEASED, async (_request, op) => {
        await ask(op)
        // Every handler here returns a Response, so only `commit` may return one: a refusal is thrown.
        throw Response.json(BODY, { status })
      }),
    ),
  'nest on express': onNest((root) => NestFactory.create(root, { logger: false, forceCloseConnections: true })),
  'nest on fastify': onNest((root) =>
    NestFactory.create(root, new FastifyAdapter({ forceCloseConnections: true }), { logger: false }),
  ),
}

describe.each(Object.entries(ADAPTERS))('a leased handler that answers without commit, on %s', (_name, open) => {
  const place = worldOfEachTest()

  const attempts = async (status: number): Promise<{ runs: number; calls: number; seen: Awaited<Answered>[] }> => {
    let [runs, calls] = [0, 0]
    const ask: Ask = async ({ step }) => {
      runs++
      await step('ask the provider', async () => ++calls)
    }
    const post = await open(place.world, ask, status, (server) => (place.started = server))
    const seen = [await post('k'), await post('k')]
    return { runs, calls, seen }
  }

  it('refuses with 402: the refusal is stored and replayed', async () => {
    const text = JSON.stringify(BODY)
    expect(await attempts(402)).toEqual({
      runs: 1,
      calls: 1,
      seen: [
        { status: 402, text, replayed: null },
        { status: 402, text, replayed: 'true' },
      ],
    })
  })

  it.each([409, 503])('answers %i: a retry runs, and its steps are there', async (status) => {
    const answer = { status, text: JSON.stringify(BODY), replayed: null }
    expect(await attempts(status)).toEqual({ runs: 2, calls: 1, seen: [answer, answer] })
  })

  it('answers 201: nothing is committed, so the client gets a 500, and the steps are there', async () => {
    const { runs, calls, seen } = await attempts(201)
    expect({ runs, calls }).toEqual({ runs: 2, calls: 1 })
    expect(seen.map(({ status, text }) => [status, text.includes('not-committed')])).toEqual([
      [500, true],
      [500, true],
    ])
  })
})
