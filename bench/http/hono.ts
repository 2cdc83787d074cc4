import { once as onceEvent } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { idempotency } from '../../src/entry/hono.ts'
import type { Charge } from '../support/charge.ts'
import { ATOMIC, BATCHED, type Work } from './work.ts'

export async function startHono({ once, forgetting, byHand, scope, forgetfulScope }: Work): Promise<number> {
  const app = new Hono()
  for (const [name, charge] of Object.entries(byHand)) {
    app.post(`/${name}`, async (c) =>
      c.json(await charge(await c.req.json<Charge>(), c.req.header('idempotency-key') ?? ''), 201),
    )
  }
  const idempotent = idempotency(once, { scope })
  const forgetful = idempotency(forgetting, { scope: forgetfulScope })
  app.post('/atomic', idempotent(), async (c) =>
    c.json(await ATOMIC.atomic(await c.req.json<Charge>(), c.var.once), 201),
  )
  app.post('/atomicEvent', idempotent(), async (c) =>
    c.json(await ATOMIC.atomicEvent(await c.req.json<Charge>(), c.var.once), 201),
  )
  app.post('/replayMemory', idempotent(), async (c) =>
    c.json(await ATOMIC.atomic(await c.req.json<Charge>(), c.var.once), 201),
  )
  app.post('/replayDatabase', forgetful(), async (c) =>
    c.json(await ATOMIC.atomic(await c.req.json<Charge>(), c.var.once), 201),
  )
  app.post('/batched', idempotent.batched(BATCHED.batched))
  app.post('/batchedEvent', idempotent.batched(BATCHED.batchedEvent))
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await onceEvent(server, 'listening')
  return (server.address() as AddressInfo).port
}
