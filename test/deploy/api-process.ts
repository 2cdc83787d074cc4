/**
 * One API process, until SIGTERM. Prints its port.
 * api-process <database> <express | fastify | hono>
 */
import '../broker/support/with-parent.ts'
import { once as onceEvent } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { idempotency as forExpress } from '../../src/http/express.ts'
import { idempotency as forFastify } from '../../src/http/fastify.ts'
import { idempotency as forHono } from '../../src/http/hono.ts'
import { charge, onSigterm, openShop, pay, type Order } from './shop.ts'

const [database = '', framework = ''] = process.argv.slice(2)
const HOST = '127.0.0.1'
const LEASE = { lease: '5s' } as const
const GLOBAL = { scope: 'global' } as const
const { pool, once } = openShop(database)

/** The server, and how the framework itself is closed after it. */
interface Api {
  readonly server: Server
  end?(): Promise<unknown>
}

const APIS: Readonly<Record<string, () => Promise<Api>>> = {
  async express() {
    const idempotent = forExpress(once, GLOBAL)
    const app = express().use(express.json())
    app.post(
      '/charges',
      idempotent(
        async (req, res, op) => void res.status(201).json(await charge(op, req.body as Order, attemptOf(req.headers))),
      ),
    )
    app.post(
      '/payouts',
      idempotent(LEASE, async (req, res, op) => {
        await pay(op, pool, req.body as Order)
        return op.commit(async (inside) => {
          res.status(201).json(await charge(inside, req.body as Order, attemptOf(req.headers)))
        })
      }),
    )
    return { server: app.listen(0, HOST) }
  },
  async fastify() {
    const idempotent = forFastify(once, GLOBAL)
    const app = Fastify({ return503OnClosing: false })
    app.post(
      '/charges',
      idempotent(async (request, reply, op) =>
        reply.code(201).send(await charge(op, request.body as Order, attemptOf(request.headers))),
      ),
    )
    app.post(
      '/payouts',
      idempotent(LEASE, async (request, reply, op) => {
        await pay(op, pool, request.body as Order)
        return op.commit(async (inside) => {
          await reply.code(201).send(await charge(inside, request.body as Order, attemptOf(request.headers)))
        })
      }),
    )
    await app.listen({ port: 0, host: HOST })
    return { server: app.server, end: () => app.close() }
  },
  async hono() {
    const idempotent = forHono(once, GLOBAL)
    const app = new Hono()
    app.post('/charges', idempotent(), async (c) =>
      c.json(await charge(c.get('once'), await c.req.json<Order>(), attemptOf(c.req.header())), 201),
    )
    app.post('/payouts', idempotent(LEASE), async (c) => {
      const order = await c.req.json<Order>()
      await pay(c.get('once'), pool, order)
      return c.get('once').commit(async (inside) => c.json(await charge(inside, order, attemptOf(c.req.header())), 201))
    })
    return { server: serve({ fetch: app.fetch, port: 0, hostname: HOST }) as Server }
  },
}

const api = await APIS[framework]?.()
if (!api) throw new Error(`'${framework}' is not one of ${Object.keys(APIS).join(', ')}`)
if (!api.server.listening) await onceEvent(api.server, 'listening')
onSigterm(once, {
  server: api.server,
  async end() {
    await api.end?.()
    await pool.end()
  },
})
process.stdout.write(`${(api.server.address() as AddressInfo).port}\n`)

function attemptOf(headers: Readonly<Record<string, string | string[] | undefined>>): string {
  return String(headers['x-attempt'])
}
