import type { Request } from 'express'
import type pg from 'pg'
import { describe, expectTypeOf, test } from 'vitest'
import { idempotency as expressIdempotency } from '../../src/entry/express.ts'
import { idempotency as fastifyIdempotency } from '../../src/entry/fastify.ts'
import { idempotency as fetchIdempotency } from '../../src/entry/fetch.ts'
import { idempotency as honoIdempotency } from '../../src/entry/hono.ts'
import { idempotency as koaIdempotency } from '../../src/entry/koa.ts'
import type { PgTx } from '../../src/entry/pg.ts'
import { event, type Once } from '../../src/index.ts'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'

const events = { 'charge.created': event<{ id: number }>((charge) => String(charge.id)) }
type Tx = PgTx<pg.Pool>
type Service = Once<Tx, typeof events>

/** Compiled, never run: what a user writes gets the types it should. */
function written(once: Service): void {
  const app = express()
  const onExpress = expressIdempotency(once, { scope: (req) => req.get('x-user') ?? '' })
  app.post(
    '/charges/:id',
    onExpress<{ id: string }>(async (req, res, { tx, publish, signal }) => {
      expectTypeOf(req.params.id).toEqualTypeOf<string>()
      expectTypeOf(tx).toEqualTypeOf<Tx>()
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
      await publish('charge.created', { id: 1 })
      // @ts-expect-error -- not in the catalogue
      await publish('charge.deleted', { id: 1 })
      res.sendStatus(204)
    }),
  )
  app.post(
    '/payments',
    onExpress({ lease: '30s' }, async (_req, res, { step, commit }) => {
      const made = await step('stripe', async ({ key }) => ({ key }))
      expectTypeOf(made.key).toEqualTypeOf<string>()
      return commit(async ({ tx }) => {
        expectTypeOf(tx).toEqualTypeOf<Tx>()
        res.sendStatus(204)
      })
    }),
  )
  onExpress({ lease: '30s' }, async (req, res, { commit }) => {
    if (req.body.amount < 0) return res.status(402).json({ declined: true })
    return commit(async () => res.sendStatus(204))
  })
  // @ts-expect-error -- a leased handler that forgets to commit
  onExpress({ lease: '30s' }, async (_req, res) => void res.sendStatus(204))
  // @ts-expect-error -- a leased handler has no tx
  onExpress({ lease: '30s' }, async (_req, _res, { tx }) => tx)
  // @ts-expect-error -- scope is required
  expressIdempotency(once, {})
  // @ts-expect-error -- a scope that may be undefined
  expressIdempotency(once, { scope: (req: Request & { user?: { id: string } }) => req.user?.id })

  const fastify = Fastify()
  const onFastify = fastifyIdempotency(once, { scope: 'global' })
  fastify.post<{ Body: { amount: number } }>(
    '/charges',
    onFastify(async (request, reply, { tx }) => {
      expectTypeOf(request.body.amount).toEqualTypeOf<number>()
      expectTypeOf(tx).toEqualTypeOf<Tx>()
      return reply.code(201).send()
    }),
  )

  const onFetch = fetchIdempotency(once, { scope: 'global' })
  const POST = onFetch(async (_request, { tx }, context: { params: Promise<{ id: string }> }) => {
    expectTypeOf(tx).toEqualTypeOf<Tx>()
    return Response.json(await context.params)
  })
  expectTypeOf(POST).parameter(1).toEqualTypeOf<{ params: Promise<{ id: string }> }>()

  const onHono = honoIdempotency(once, { scope: 'global' })
  new Hono<{ Variables: { userId: string } }>().post('/charges', onHono(), async (c) => {
    expectTypeOf(c.var.once.tx).toEqualTypeOf<Tx>()
    expectTypeOf(c.var.userId).toEqualTypeOf<string>()
    return c.body(null, 204)
  })
  new Hono().post('/payments', onHono({ lease: '30s' }), async (c) =>
    c.var.once.commit(async ({ tx }) => {
      expectTypeOf(tx).toEqualTypeOf<Tx>()
      return c.body(null, 204)
    }),
  )

  const middleware = koaIdempotency(once, { scope: 'global' })()
  expectTypeOf(middleware).parameter(0).toHaveProperty('state')
}

describe('the types', () => {
  test('are what users rely on', () => {
    expectTypeOf(written).toBeFunction()
  })
})
