import { createServer } from 'node:http'
import express from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx, type Started, type World } from './world.ts'

type Commit = (make: (op: { tx: QueryTx; key: string }) => Promise<unknown>) => Promise<unknown>
type Work = (commit: Commit, answer: () => unknown) => Promise<never>
type Tell = (error: unknown) => void
type Post = (key: string) => Promise<{ status: number; text: string }>
type Open = (world: World, work: Work, tell: Tell, started: (one: Started) => void) => Promise<Post>

const LEASED = { lease: '5s' } as const

function postTo(started: Started): Post {
  const client = impatientClient(started)
  return (key) => client.send({ key })
}

function over(handle: (request: Request) => Response | Promise<Response>): Post {
  return async (key) => {
    const headers = { 'idempotency-key': key }
    const seen = await handle(new Request('http://x/orders', { method: 'POST', headers }))
    return { status: seen.status, text: await seen.text() }
  }
}

function onAnExpress(make: typeof express): Open {
  return async ({ once }, work, onError, started) => {
    const app = make()
    app.set('env', 'test')
    const idempotent = onExpress(once, { scope: 'global', onError })
    app.post(
      '/orders',
      idempotent(LEASED, (_req, res, { commit }) =>
        work(commit as unknown as Commit, () => res.status(201).json('made')),
      ),
    )
    const server = await listen(createServer(app))
    started(server)
    return postTo(server)
  }
}

const ADAPTERS: Record<string, Open> = {
  node: async ({ once }, work, onError, started) => {
    const route = onNode(once, { scope: 'global', onError })(LEASED, (_req, res, { commit }) =>
      work(commit as unknown as Commit, () => res.writeHead(201).end('"made"')),
    )
    const server = await listen(createServer(route))
    started(server)
    return postTo(server)
  },
  'express 5': onAnExpress(express),
  'express 4': onAnExpress(express4 as typeof express),
  fastify: async ({ once }, work, onError, started) => {
    const app = Fastify({ forceCloseConnections: true })
    const idempotent = onFastify(once, { scope: 'global', onError })
    app.post(
      '/orders',
      idempotent(LEASED, (_request, reply, { commit }) =>
        work(commit as unknown as Commit, () => reply.code(201).send('"made"')),
      ),
    )
    const server = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    started(server)
    return postTo(server)
  },
  koa: async ({ once }, work, onError, started) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(once, { scope: 'global', onError })(LEASED))
    app.use((ctx) =>
      work((ctx.state['once'] as { commit: Commit }).commit, () => {
        ctx.status = 201
        ctx.body = '"made"'
      }),
    )
    const server = await listen(createServer((req, res) => void app.callback()(req, res)))
    started(server)
    return postTo(server)
  },
  hono: async ({ once }, work, tell) => {
    const app = new Hono()
    app.onError((error, c) => {
      tell(error)
      return c.text('failed', 500)
    })
    app.post('/orders', onHono(once, { scope: 'global' })(LEASED), (c) =>
      work((c.get('once') as unknown as { commit: Commit }).commit, () => c.body('"made"', 201)),
    )
    return over((request) => app.fetch(request))
  },
  fetch: async ({ once }, work, onError) =>
    over(
      onFetch(once, { scope: 'global', onError })(LEASED, (_request, { commit }) =>
        work(commit as unknown as Commit, () => new Response('"made"', { status: 201 })),
      ),
    ),
}

describe.each(Object.entries(ADAPTERS))('a leased handler that fails after its commit, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const trouble = new Error('the mail was not sent')

  const WORKS: Record<string, Work> = {
    'when its commit is over': async (commit, answer) => {
      await commit(async ({ tx, key }) => {
        await effect(tx, key)
        return answer()
      })
      throw trouble
    },
    'while the database commits': async (commit, answer) => {
      await new Promise<void>((resolve) => {
        void commit(async ({ tx, key }) => {
          await effect(tx, key)
          setTimeout(resolve)
          return answer()
        })
      })
      throw trouble
    },
  }

  it.each(Object.entries(WORKS))('is answered with what was committed: %s', async (_when, work) => {
    const told: unknown[] = []
    const post = await open(
      place.world,
      work,
      (error) => told.push(error),
      (server) => (place.started = server),
    )
    for (let n = 0; n < 2; n++) expect(await post('k')).toMatchObject({ status: 201, text: '"made"' })
    expect(await place.world.effects('k')).toBe(1)
    expect(told).toEqual([trouble])
  })
})
