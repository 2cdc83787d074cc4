import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import express, { type ErrorRequestHandler } from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { AROUND, AROUND_DEADLINE_MS, type RawHandler, type RawOp } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type Started, type World } from './world.ts'

const FRAMEWORK = { errors: 'framework' } as const
/** Too long for the first call, and good for the next one. */
const slowOnce = (): (() => Promise<unknown>) => {
  let calls = 0
  return async () => calls++ === 0 && sleep(2 * AROUND_DEADLINE_MS)
}
const HOWS: Record<string, { readonly spoil?: (world: World) => void; readonly wait: () => () => Promise<unknown> }> = {
  'a commit that fails': { spoil: (world) => world.failNextCommit('fault'), wait: () => async () => {} },
  'a deadline that passes': { wait: slowOnce },
}

describe.each(Object.entries(AROUND))('an error of ours that the framework answers, on %s', (_name, open) => {
  const place = worldOfEachTest()

  it.each(Object.entries(HOWS))('%s is one 5xx, without effect', async (_how, { spoil, wait }) => {
    const waited = wait()
    const handler: RawHandler = async (res, { tx, key }) => {
      await effect(tx, key)
      await waited()
      res.statusCode = 201
      res.end('made')
    }
    place.started = await open(place.world, () => {}, handler, FRAMEWORK)
    spoil?.(place.world)
    const client = impatientClient(place.started)
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(seen.text).not.toContain('made')
    expect(await place.world.effects(key)).toBe(0)
    await sleep(AROUND_DEADLINE_MS)
    expect((await client.send({ key })).status).toBe(201)
    expect(await place.world.effects(key)).toBe(1)
  })
})

const OPTIONS = { scope: 'global', deadline: `${AROUND_DEADLINE_MS}ms`, ...FRAMEWORK } as const
type Handle = (op: RawOp) => Promise<unknown>

/** Each has an error handler that takes its time. */
const PATIENT: Record<string, (world: World, handle: Handle) => Promise<Started>> = {
  'express 5': (world, handle) => startExpress(express, world, handle),
  'express 4': (world, handle) => startExpress(express4 as typeof express, world, handle),
  fastify: async ({ once }, handle) => {
    const app = Fastify({ forceCloseConnections: true })
    app.setErrorHandler(async (error: { code: string }, _request, reply) => {
      await sleep(20)
      return reply.code(503).send({ handled: error.code })
    })
    app.post(
      '/orders',
      onFastify(once, OPTIONS)(async (_request, reply, op) => reply.code(201).send(await handle(op))),
    )
    return { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  koa: ({ once }, handle) => {
    const app = new Koa()
    app.on('error', () => {})
    app.use(onKoa(once, OPTIONS)())
    app.use(async (ctx) => {
      const body = await handle(ctx.state['once'] as RawOp)
      ctx.status = 201
      ctx.body = body
    })
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
}

function startExpress(make: typeof express, { once }: World, handle: Handle): Promise<Started> {
  const app = make()
  app.post(
    '/orders',
    onExpress(once, OPTIONS)(async (_req, res, op) => res.status(201).json(await handle(op))),
  )
  const answer: ErrorRequestHandler = async (error: { code: string }, _req, res, _next) => {
    await sleep(20)
    res.status(503).json({ handled: error.code })
  }
  app.use(answer)
  return listen(createServer(app))
}

describe.each(Object.entries(PATIENT))('an error handler that takes its time, on %s', (name, open) => {
  const place = worldOfEachTest()

  it.each(Object.entries(HOWS))('answers %s', async (_how, { spoil, wait }) => {
    const waited = wait()
    place.started = await open(place.world, async ({ tx, key }) => {
      await effect(tx, key)
      await waited()
      return { made: true }
    })
    spoil?.(place.world)
    const client = impatientClient(place.started)
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBe(503)
    expect(seen.text).toMatch(name === 'koa' ? /^Service Unavailable$/ : /^{"handled":"ONCE_\w+"}$/)
    expect(await place.world.effects(key)).toBe(0)
    await sleep(AROUND_DEADLINE_MS)
    expect((await client.send({ key })).status).toBe(201)
    expect(await place.world.effects(key)).toBe(1)
  })
})
