import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { effectivelyOnce, final, type LeasedOperation, type Once } from '../../src/index.ts'
import { memoryStore, type MemoryStore } from '../../src/store/memory/memory-store.ts'

type Op = Pick<LeasedOperation<unknown, {}>, 'step'>
type Call = (key: string) => Promise<Response>

const log: string[] = []
let isDown = false
let closers: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closers.toReversed()) await close()
  closers = []
  log.length = 0
})

/** Books a courier. Its undo fails while the courier's service is down. */
async function book({ step }: Op): Promise<void> {
  await step('courier', async () => 'booked', {
    undo: async () => {
      if (isDown) throw new Error('the courier is down')
      log.push('cancelled')
    },
  })
  log.push('refused')
}

const SCOPE = { scope: () => 'ann', onError: () => {} } as const
const REFUSAL = { error: 'card declined' } as const

async function listening(server: Server): Promise<Call> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  return (key) => fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', headers: { 'idempotency-key': key } })
}

const STARTS: Record<string, (once: Once<never, {}>) => Promise<Call>> = {
  express(once) {
    const app = express().set('env', 'test')
    app.post(
      '/orders',
      onExpress(once, SCOPE)({ lease: '5s' }, async (_req, res, op) => {
        await book(op)
        return res.status(402).json(REFUSAL) as never
      }),
    )
    return listening(createServer(app))
  },
  node(once) {
    const handle = onNode(once, SCOPE)({ lease: '5s' }, async (_req, _res, op) => {
      await book(op)
      throw final({ status: 402, body: REFUSAL })
    })
    return listening(createServer(handle))
  },
  async fastify(once) {
    const app = Fastify()
    app.post(
      '/orders',
      onFastify(once, { scope: () => 'ann' })({ lease: '5s' }, async (_req, reply, op) => {
        await book(op)
        return reply.code(402).send(REFUSAL) as never
      }),
    )
    const base = await app.listen({ port: 0, host: '127.0.0.1' })
    closers.push(() => app.close())
    return (key) => fetch(`${base}/orders`, { method: 'POST', headers: { 'idempotency-key': key } })
  },
  async koa(once) {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(once, { scope: () => 'ann' })({ lease: '5s' }))
    app.use(async (ctx) => {
      await book(ctx.state['once'] as Op)
      throw final({ status: 402, body: REFUSAL })
    })
    return listening(createServer((req, res) => void app.callback()(req, res)))
  },
  async hono(once) {
    const app = new Hono().onError((_error, c) => c.text('failed', 500))
    app.post('/orders', onHono(once, { scope: () => 'ann' })({ lease: '5s' }), async (c) => {
      await book(c.var.once)
      return c.json(REFUSAL, 402)
    })
    return async (key) => app.request('/orders', { method: 'POST', headers: { 'idempotency-key': key } })
  },
}

describe('an undo behind HTTP', () => {
  it.each(Object.keys(STARTS))(
    '%s: the refusal is answered after the undo, by the attempt that ends it',
    async (name) => {
      const store: MemoryStore = memoryStore()
      const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false }) as never as Once<never, {}>
      closers.push(() => once.close())
      const call = await (STARTS[name] as (typeof STARTS)[string])(once)
      isDown = true
      const first = await call('k1')
      expect(first.status).toBe(503)
      expect(await first.text()).not.toContain('card declined')
      isDown = false
      for (const _ of ['the attempt that ends the undo', 'a replay']) {
        const answer = await call('k1')
        expect(answer.status).toBe(402)
        expect(await answer.json()).toEqual(REFUSAL)
        expect(answer.headers.get('idempotent-replayed')).toBe('true')
      }
      expect(log.filter((line) => line === 'cancelled')).toHaveLength(1)
      const plain = await call('k2')
      expect([plain.status, plain.headers.get('idempotent-replayed')]).toEqual([402, null])
      expect(log.slice(-2)).toEqual(['refused', 'cancelled'])
    },
  )
})
