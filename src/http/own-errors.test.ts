import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { DrizzleQueryError } from 'drizzle-orm'
import express, { type NextFunction, type Request, type Response } from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { idempotency as onExpress } from '../entry/express.ts'
import { idempotency as onFastify } from '../entry/fastify.ts'
import { idempotency as onFetch } from '../entry/fetch.ts'
import { idempotency as onHono } from '../entry/hono.ts'
import { idempotency as onKoa } from '../entry/koa.ts'
import { idempotency as onNode } from '../entry/node.ts'
import { onceError } from '../errors.ts'
import { effectivelyOnce } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { storeError } from '../store/postgres/errors.ts'

const WHERE = 'connect ECONNREFUSED 10.0.0.7:5432'
/** What a database says beside its message, and what clients of it put into theirs. */
const QUOTED = 'BODY-PLANTED'
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0)) await step()
  vi.restoreAllMocks()
})

function brokenOnce() {
  const store = memoryStore()
  store.begin = async () => {
    const inner = Object.assign(new Error(`refused ${QUOTED}`), { code: '23505', detail: `Key (email)=(${QUOTED})` })
    throw onceError('ONCE_STORE_UNAVAILABLE', { detail: WHERE, cause: inner })
  }
  return effectivelyOnce({ namespace: 'broken', store, guard: 'warn', sweep: false })
}

type Serves = Server | ((request: globalThis.Request) => globalThis.Response | Promise<globalThis.Response>)

async function post(app: Serves): Promise<globalThis.Response> {
  const init = { method: 'POST', headers: { 'idempotency-key': 'k', 'content-type': 'application/json' }, body: '{}' }
  if (typeof app === 'function') return app(new globalThis.Request('http://x/', init))
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve))
  undo.push(() => app.close())
  return fetch(`http://127.0.0.1:${(app.address() as AddressInfo).port}/`, init)
}

interface Told {
  onError?: (error: unknown, request: unknown) => void | Promise<void>
  errors?: 'framework'
}
/** Each answers POST / with a route whose store is away, and logs to the console. */
const apps: Record<string, (told?: Told) => Serves> = {
  express: (told) => {
    const app = express().use(express.json())
    app.post(
      '/',
      onExpress(brokenOnce(), { scope: 'global', ...told })(async (_req, res) => res.end()),
    )
    // As Express answers and logs by itself, which it does not under a test runner.
    app.use((error: { status: number }, _req: Request, res: Response, _next: NextFunction) => {
      console.error(error)
      res.status(error.status).end()
    })
    return createServer(app)
  },
  node: (told) => createServer(onNode(brokenOnce(), { scope: 'global', ...told })(async (_req, res) => void res.end())),
  koa: (told) => {
    const app = new Koa()
    app.use(onKoa(brokenOnce(), { scope: 'global', ...told })())
    const listener = app.callback()
    return createServer((req, res) => void listener(req, res))
  },
  hono: (told) => {
    const app = new Hono()
    app.post('/', onHono(brokenOnce(), { scope: 'global', ...told })(), (c) => c.text('x'))
    app.onError((error, c) => {
      console.error(error)
      return c.text('', (error as unknown as { status: 503 }).status)
    })
    return (request) => app.fetch(request)
  },
  fastify: (told) => {
    const write = (line: string): void => {
      if (line.includes('"level":50')) console.error(line)
    }
    const app = Fastify({ logger: { stream: { write } } })
    app.post(
      '/',
      onFastify(brokenOnce(), { scope: 'global', ...told })(async () => 'x'),
    )
    undo.push(() => app.close())
    return async (request) => {
      const headers = Object.fromEntries(request.headers)
      const { statusCode, body } = await app.inject({ method: 'POST', url: '/', headers, payload: '{}' })
      return new globalThis.Response(body, { status: statusCode })
    }
  },
  fetch: (told) => {
    const route = onFetch(brokenOnce(), { scope: 'global', ...told })(async () => new globalThis.Response('x'))
    return (request) =>
      route(request).catch((error: { status: number }) => {
        console.error(error)
        return new globalThis.Response('', { status: error.status })
      })
  },
}

const quiet = () => vi.spyOn(console, 'error').mockImplementation(() => {})

describe.each(Object.entries(apps))('an error of ours on %s', (_name, appOf) => {
  it('is logged on the server, and the client learns nothing of its cause', async () => {
    const logged = quiet()
    const response = await post(appOf())
    expect(response.status).toBe(503)
    expect(await response.text()).not.toMatch(/ECONNREFUSED|23505/)
    const text = inspect(logged.mock.calls, { depth: 9, showHidden: true })
    expect(text).toContain(`ONCE_STORE_UNAVAILABLE ${WHERE} (23505)`)
    // What the cause quotes is for `onError` alone.
    expect(text).not.toContain(QUOTED)
  })

  it('is told to onError instead, with the request', async () => {
    const logged = quiet()
    const onError = vi.fn()
    expect((await post(appOf({ onError }))).status).toBe(503)
    expect(onError).toHaveBeenCalledTimes(1)
    expect(onError.mock.calls[0]).toMatchObject([
      { code: 'ONCE_STORE_UNAVAILABLE', cause: { code: '23505' } },
      expect.anything(),
    ])
    expect(logged).not.toHaveBeenCalled()
  })

  it('is answered alike when onError throws or rejects, and the process goes on', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    undo.push(() => process.off('unhandledRejection', unhandled))
    const fails = [
      () => {
        throw new Error('mine')
      },
      async () => {
        throw new Error('mine')
      },
    ]
    for (const onError of fails) {
      const response = await post(appOf({ onError }))
      expect(response.status).toBe(503)
      expect(await response.json()).toMatchObject({ status: 503 })
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect(unhandled).not.toHaveBeenCalled()
  })

  it('goes to the framework alone where the route says so, and is logged once', async () => {
    const logged = quiet()
    const response = await post(appOf({ errors: 'framework' }))
    expect(response.status).toBe(503)
    expect(response.headers.get('content-type') ?? '').not.toContain('problem')
    expect(logged.mock.calls.filter((args) => inspect(args).includes('ONCE_STORE_UNAVAILABLE'))).toHaveLength(1)
  })
})

it('on node:http, an onError that fails leaves the bare 500 of a handler that threw', async () => {
  const unhandled = vi.fn()
  process.on('unhandledRejection', unhandled)
  undo.push(() => process.off('unhandledRejection', unhandled))
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const onError = (): never => {
    throw new Error('mine')
  }
  for (const methods of [['POST'], ['PATCH']] as const) {
    const route = onNode(once, { scope: 'global', methods: [...methods], onError })(async () => {
      throw new Error('of the handler')
    })
    expect((await post(createServer(route))).status).toBe(500)
  }
  expect(unhandled).not.toHaveBeenCalled()
})

it('tells the own onError of a route on node:http what its handler throws', async () => {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const [shared, own] = [vi.fn(), vi.fn()]
  const route = onNode(once, { scope: 'global', onError: shared })({ onError: own }, async () => {
    throw new Error('of the handler')
  })
  await post(createServer(route))
  expect([shared.mock.calls.length, own.mock.calls.length]).toEqual([0, 1])
})

it('does not say the parameters of a statement, as Drizzle does', () => {
  const error = new DrizzleQueryError('insert', [QUOTED], new Error('disk is full'))
  expect(error.message).toContain(QUOTED)
  expect(storeError(error, 's').message).toBe('ONCE_STORE_UNAVAILABLE The store cannot be reached: disk is full')
})

it('does not log what a schema says about the data of an event', async () => {
  const logged = quiet()
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const route = onFetch(once, { scope: 'global' })(async () => {
    throw onceError('ONCE_EVENT_INVALID', { detail: `expected a number, got ${QUOTED}` })
  })
  expect((await post(route)).status).toBe(500)
  const text = inspect(logged.mock.calls, { depth: 9, showHidden: true })
  expect(text).toContain('ONCE_EVENT_INVALID')
  expect(text).not.toContain(QUOTED)
})

it('is logged once a second, with how many came since', async () => {
  const logged = quiet()
  const handler = onFetch(brokenOnce(), { scope: 'global' })(async () => new globalThis.Response('x'))
  for (let n = 0; n < 5; n++) await post(handler)
  expect(logged).toHaveBeenCalledTimes(1)
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  await post(handler)
  expect(logged).toHaveBeenCalledTimes(2)
  expect(logged.mock.calls[1]?.[0]).toContain('and 4 more since')
})

it.each([undefined, '5s'] as const)('a 5xx of the handler is told as released (lease: %s)', async (lease) => {
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false, observe })
  const answer = async () => new globalThis.Response('x', { status: 500 })
  const idempotent = onFetch(once, { scope: 'global' })
  const handler = lease === undefined ? idempotent(answer) : idempotent({ lease }, answer as never)
  expect((await post(handler)).status).toBe(500)
  expect(signals.map(({ kind }) => kind)).toEqual(['released'])
})
