import 'reflect-metadata'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent } from '../../src/entry/nest.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

const RECORD = { streams: 'record', lease: '5s' } as const
const OPTIONS = { scope: 'global' } as const
const handler = (): never => {
  throw new Error('a refused route was called')
}

it('on Koa, the route is refused when it is made', () => {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const detail = 'The adapter for Koa cannot record streams'
  expect(() => onKoa(once, OPTIONS)(RECORD as never)).toThrow(unsupported(detail))
})

it('on Nest, the method is refused when its class is declared', () => {
  const declare = (): unknown => {
    class Answers {
      create(): void {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Answers.prototype, 'create') as PropertyDescriptor
    Idempotent(RECORD as never)(Answers.prototype, 'create', descriptor)
    return Answers
  }
  expect(declare).toThrow(unsupported('The adapter for Nest cannot record streams'))
})

it.each(['express', 'fastify', 'fetch', 'hono', 'node'] as const)(
  'on the Redis store, the route is refused when it is made, by %s',
  async (name) => {
    // A route is made without a server: this client never connects.
    const client = new Redis({ lazyConnect: true })
    const once = effectivelyOnce({ namespace: 'x', store: redisStore(client), guard: 'off', sweep: false })
    const make = {
      express: () => onExpress(once, OPTIONS)(RECORD, handler),
      fastify: () => onFastify(once, OPTIONS)(RECORD, handler),
      fetch: () => onFetch(once, OPTIONS)(RECORD, handler),
      hono: () => onHono(once, OPTIONS)(RECORD),
      node: () => onNode(once, OPTIONS)(RECORD, handler),
    }[name]
    expect(make).toThrow(unsupported('The redis store cannot record streams'))
    expect(client.status).toBe('wait')
    await once.close()
    client.disconnect()
  },
)

function unsupported(detail: string): unknown {
  return expect.objectContaining({ code: 'ONCE_UNSUPPORTED', message: expect.stringContaining(detail) })
}
