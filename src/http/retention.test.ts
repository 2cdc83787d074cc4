import 'reflect-metadata'
import { createServer } from 'node:http'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { expect, test } from 'vitest'
import { worldOfEachTest } from '../../test/http/world-of-each-test.ts'
import { listen, type QueryTx } from '../../test/http/world.ts'
import { idempotency as onExpress } from '../entry/express.ts'
import { idempotency as onFastify } from '../entry/fastify.ts'
import { idempotency as onFetch } from '../entry/fetch.ts'
import { idempotency as onHono } from '../entry/hono.ts'
import { idempotency as onKoa } from '../entry/koa.ts'
import { Idempotent, OnceModule } from '../entry/nest.ts'
import { idempotency as onNode } from '../entry/node.ts'
import type { Once } from '../index.ts'
import type { Policy } from './policy.ts'

type Retention = Policy['retention']
type Own = { replayFor?: '1h' | '2h' | '30d'; goneFor?: '0s' | '3h'; expired?: 'gone' | 'rerun' }

/** A server of one framework. Its routes come one by one. */
interface Site {
  bind(own: Own): void
  read(): Promise<Retention>
}

const place = worldOfEachTest()
const ALL = { scope: 'global' } as const
const DEFAULTS: Retention = { replayFor: 86_400, goneFor: 604_800, afterReplay: 'gone' }
const PATH = '/.well-known/idempotency-key'
const nothing = (): never => undefined as never

async function retentionAt(base: string): Promise<Retention> {
  return ((await (await fetch(base + PATH)).json()) as Policy).retention
}

const SITES: Record<string, (once: Once<QueryTx, {}>) => Promise<Site>> = {
  async fetch(once) {
    const idempotent = onFetch(once, ALL)
    return {
      bind: (own) => void idempotent(own, nothing),
      read: async () => ((await idempotent.policyHandler().json()) as Policy).retention,
    }
  },
  async 'fetch, a batched route'(once) {
    const idempotent = onFetch(once, ALL)
    const statement = (): { sql: string } => ({ sql: 'select 1' })
    return {
      bind: (own) => void idempotent.batched(own, { statement, respond: nothing } as never),
      read: async () => idempotent.policy().retention,
    }
  },
  async hono(once) {
    const idempotent = onHono(once, ALL)
    const app = new Hono().get(PATH, idempotent.policyHandler)
    return {
      bind: (own) => void idempotent(own),
      read: async () => ((await (await app.request(PATH)).json()) as Policy).retention,
    }
  },
  async 'node:http'(once) {
    const idempotent = onNode(once, ALL)
    const { base } = (place.started = await listen(createServer(idempotent.policyHandler)))
    return { bind: (own) => void idempotent(own, nothing), read: () => retentionAt(base) }
  },
  async express(once) {
    const idempotent = onExpress(once, ALL)
    const app = express().get(PATH, idempotent.policyHandler)
    const { base } = (place.started = await listen(createServer(app)))
    return { bind: (own) => void idempotent(own, nothing), read: () => retentionAt(base) }
  },
  async fastify(once) {
    const idempotent = onFastify(once, ALL)
    const app = Fastify()
    app.get(PATH, idempotent.policyHandler)
    return {
      bind: (own) => void idempotent(own, nothing),
      read: async () => (await app.inject(PATH)).json<Policy>().retention,
    }
  },
  async koa(once) {
    const idempotent = onKoa(once, ALL)
    const answer = new Koa().use(idempotent.policyHandler as never).callback()
    const { base } = (place.started = await listen(createServer((req, res) => void answer(req, res))))
    return { bind: (own) => void idempotent(own), read: () => retentionAt(base) }
  },
  async nest(once) {
    const documents = OnceModule.documents({ once, ...ALL })
    class Orders {
      policy(): Policy {
        return documents.policy()
      }
    }
    Get(documents.policyPath)(Orders.prototype, 'policy', descriptorOf(Orders, 'policy'))
    Controller()(Orders)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class App {}
    Module({ imports: [OnceModule.forRoot({ once, ...ALL, closeWithin: false })], controllers: [Orders] })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.listen(0, '127.0.0.1')
    place.started = { base: await app.getUrl(), close: () => app.close() }
    const { base } = place.started
    return {
      // No request has come to this method yet.
      bind: (own) => Idempotent(own)(Orders.prototype, 'pay', { value: () => 'paid' }),
      read: () => retentionAt(base),
    }
  },
}

function descriptorOf(type: { prototype: object }, method: string): PropertyDescriptor {
  return Object.getOwnPropertyDescriptor(type.prototype, method) as PropertyDescriptor
}

test.each(Object.entries(SITES))('%s: the policy has the shortest retention of the routes', async (_, open) => {
  const { bind, read } = await open(place.world.once)
  expect(await read()).toEqual(DEFAULTS)
  bind({ replayFor: '30d' })
  bind({})
  expect(await read()).toEqual(DEFAULTS)
  bind({ replayFor: '2h', goneFor: '3h' })
  expect(await read()).toEqual({ replayFor: 7_200, goneFor: 10_800, afterReplay: 'gone' })
  // The keys of this route are new again after two hours.
  bind({ replayFor: '2h', goneFor: '3h', expired: 'rerun' })
  expect(await read()).toEqual({ replayFor: 7_200, goneFor: 10_800, afterReplay: 'rerun' })
  bind({ replayFor: '1h', goneFor: '0s' })
  expect(await read()).toEqual({ replayFor: 3_600, goneFor: 0, afterReplay: 'gone' })
})

test('one route has the shortest answers, and another one forgets its keys first', async () => {
  const idempotent = onFetch(place.world.once, ALL)
  idempotent({ replayFor: '1h' }, nothing)
  idempotent({ replayFor: '2h', goneFor: '0s' }, nothing)
  // Every route repeats its answers for one hour, and remembers its keys for two.
  expect(idempotent.policy().retention).toEqual({ replayFor: 3_600, goneFor: 3_600, afterReplay: 'gone' })
})

test('routes with other shared options are of the same server', async () => {
  const own = onFetch(place.world.once, { ...ALL, replayFor: '2h', goneFor: '0s' })
  const other = onExpress(place.world.once, ALL)
  own(nothing)
  expect(other.policy().retention).toEqual({ replayFor: 7_200, goneFor: 0, afterReplay: 'gone' })
})
