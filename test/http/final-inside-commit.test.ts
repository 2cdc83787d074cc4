import { createServer } from 'node:http'
import express from 'express'
import { Hono } from 'hono'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { final } from '../../src/index.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx, type Started, type World } from './world.ts'

const OPTIONS = { scope: 'global' } as const
const LEASED = { lease: '5s' } as const

type Commit = (make: (op: { tx: QueryTx; key: string }) => Promise<never>) => Promise<unknown>
type Post = (key: string) => Promise<{ status: number; text: string }>

async function refuse({ tx, key }: { tx: QueryTx; key: string }): Promise<never> {
  await effect(tx, key)
  throw final({ status: 402, body: { why: 'no money' } })
}

function over(handle: (request: Request) => Response | Promise<Response>): Post {
  return async (key) => {
    const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
    const seen = await handle(new Request('http://x/orders', { method: 'POST', headers, body: '{"a":1}' }))
    return { status: seen.status, text: await seen.text() }
  }
}

const ADAPTERS: Record<string, (world: World, started: (one: Started) => void) => Promise<Post>> = {
  express: async (world, started) => {
    const app = express()
    app.set('env', 'test')
    const idempotent = onExpress(world.once, OPTIONS)
    app.post(
      '/orders',
      idempotent(LEASED, (_req, _res, { commit }) => (commit as unknown as Commit)(refuse) as never),
    )
    const server = await listen(createServer(app))
    started(server)
    return (key) => new Client(server.base).send({ key })
  },
  koa: async (world, started) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(world.once, OPTIONS)(LEASED))
    app.use((ctx) => (ctx.state['once'] as { commit: Commit }).commit(refuse) as never)
    const server = await listen(createServer((req, res) => void app.callback()(req, res)))
    started(server)
    return (key) => new Client(server.base).send({ key })
  },
  fetch: async (world) => {
    const idempotent = onFetch(world.once, OPTIONS)
    return over(idempotent(LEASED, (_request, { commit }) => (commit as unknown as Commit)(refuse) as never))
  },
  hono: async (world) => {
    const app = new Hono()
    app.post('/orders', onHono(world.once, OPTIONS)(LEASED), (c) => {
      return (c.get('once') as unknown as { commit: Commit }).commit(refuse) as never
    })
    return over((request) => app.fetch(request))
  },
}

describe.each(Object.entries(ADAPTERS))('final() inside commit, on %s', (_name, open) => {
  const place = worldOfEachTest()

  it('is stored alone, and comes back', async () => {
    const post = await open(place.world, (server) => (place.started = server))
    for (let n = 0; n < 2; n++) {
      const { status, text } = await post('k')
      expect([status, text]).toEqual([402, '{"why":"no money"}'])
    }
    expect(await place.world.effects('k')).toBe(0)
  })
})
