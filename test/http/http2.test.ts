import { createServer as createHttp1Server } from 'node:http'
import { connect, createServer, type Http2ServerResponse } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen as listenHttp1, type QueryTx, type Started, type World } from './world.ts'

interface Op {
  readonly tx: QueryTx
  readonly key: string
}
type Handler = (res: Http2ServerResponse, op: Op) => unknown
type Open = (world: World, handler: Handler) => Promise<Started>

const OPTIONS = { scope: 'global', deadline: '600ms' } as const

async function listen(server: ReturnType<typeof createServer>): Promise<Started> {
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('close', () => sessions.delete(session))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const session of sessions) session.destroy()
      }),
  }
}

const ADAPTERS: Record<string, Open> = {
  node: (world, handler) => {
    const idempotent = onNode(world.once, { ...OPTIONS, onError: () => {} })
    const listener = idempotent((_req, res, op) => handler(res as unknown as Http2ServerResponse, op))
    return listen(createServer((req, res) => listener(req as never, res as never)))
  },
  koa: (world, handler) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(world.once, OPTIONS)())
    app.use(async (ctx) => {
      ctx.respond = false
      ctx.res.statusCode = 200
      await handler(ctx.res as unknown as Http2ServerResponse, ctx.state['once'] as Op)
    })
    const listener = app.callback()
    return listen(createServer((req, res) => void listener(req as never, res as never)))
  },
  fastify: async (world, handler) => {
    const app = Fastify({ http2: true })
    const idempotent = onFastify(world.once, OPTIONS as never)
    app.post(
      '/orders',
      idempotent(async (_request, reply, op) => {
        await handler(reply.raw as unknown as Http2ServerResponse, op)
        if (!reply.raw.headersSent) reply.hijack()
      }) as never,
    )
    const base = await app.listen({ port: 0, host: '127.0.0.1' })
    return { base, close: () => app.close() }
  },
}

interface Seen {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
}

function send(base: string, key: string, body = '{"amount":5}'): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const session = connect(base)
    session.on('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': '/orders',
      'content-type': 'application/json',
      'idempotency-key': `"${key}"`,
    })
    let headers: Record<string, unknown> = {}
    let text = ''
    const timer = setTimeout(() => {
      session.destroy()
      reject(new Error('no answer'))
    }, 3000)
    stream.on('response', (got) => {
      headers = got
    })
    stream.setEncoding('utf8')
    stream.on('data', (chunk) => (text += String(chunk)))
    stream.on('error', reject)
    stream.on('close', () => {
      clearTimeout(timer)
      session.close()
      resolve({ status: Number(headers[':status'] ?? 0), headers, text })
    })
    stream.end(body)
  })
}

/** Straight to the stream, and what Node does not send over HTTP/2. */
const AROUND: Record<string, (res: Http2ServerResponse) => void> = {
  respond: ({ stream }) => {
    stream.respond({ ':status': 202 })
    stream.end('sent')
  },
  end: ({ stream }) => void stream.end('sent'),
  respondWithFile: ({ stream }) => stream.respondWithFile(import.meta.filename),
  'an informational answer': (res) => {
    res.stream.additionalHeaders({ ':status': 103 })
    res.end('sent')
  },
  'a push': (res) => {
    res.createPushResponse({ ':path': '/pushed' }, (_error, pushed) => pushed.end('sent'))
    res.end('sent')
  },
  'a header of a connection': (res) => {
    res.setHeader('transfer-encoding', 'chunked')
    res.end('sent')
  },
}

describe.each(Object.entries(ADAPTERS))('HTTP/2 on %s', (_name, open) => {
  const place = worldOfEachTest()

  it('an answer leaves after the commit, and comes back', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      res.setHeader('content-type', 'application/json')
      res.setHeader('etag', '"1"')
      res.statusCode = 201
      res.end('{"made":true}')
    })
    for (const again of [false, true]) {
      const seen = await send(place.started.base, 'one')
      expect([seen.status, seen.text]).toEqual([201, '{"made":true}'])
      expect(seen.headers['etag']).toBe('"1"')
      expect(seen.headers['idempotent-replayed']).toBe(again ? 'true' : undefined)
    }
    expect(await place.world.effects('one')).toBe(1)
  })

  it.each(Object.entries(AROUND))(
    'an answer around the response is one 5xx, without effect: %s',
    async (_how, answer) => {
      place.started = await open(place.world, async (res, { tx, key }) => {
        await effect(tx, key)
        answer(res)
      })
      for (let n = 0; n < 2; n++) expect((await send(place.started.base, 'around')).status).toBe(500)
      expect(await place.world.effects('around')).toBe(0)
    },
  )

  it('a header is found under its name in any case', async () => {
    place.started = await open(place.world, async (res) => {
      res.setHeader('X-Shop', 'a')
      res.end(`${res.getHeader('x-shop')} ${res.hasHeader('X-SHOP')}`)
    })
    expect(await send(place.started.base, 'head')).toMatchObject({ status: 200, text: 'a true' })
  })

  it('pieces, a writeHead, a pipe', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      if (key === 'pipe') Readable.from(['a', 'b', 'c']).pipe(res)
      else {
        res.writeHead(202, { 'content-type': 'text/plain' })
        res.write('a')
        res.write('b')
        res.end('c')
      }
    })
    expect(await send(place.started.base, 'pieces')).toMatchObject({ status: 202, text: 'abc' })
    expect(await send(place.started.base, 'pieces')).toMatchObject({ status: 202, text: 'abc' })
    expect(await send(place.started.base, 'pipe')).toMatchObject({ status: 200, text: 'abc' })
  })

  it('a commit that fails: nothing of the answer leaves', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      res.setHeader('x-secret', 'yes')
      res.end('made')
    })
    place.world.failNextCommit('fault')
    const seen = await send(place.started.base, 'fails')
    expect(seen.status).toBe(503)
    expect(seen.headers['x-secret']).toBeUndefined()
    expect(seen.text).not.toContain('made')
    expect(await send(place.started.base, 'fails')).toMatchObject({ status: 200, text: 'made' })
  })

  it('two answers, a late one, none, and a destroyed one end no process', async () => {
    let late: Promise<void> | undefined
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      if (key === 'two') {
        res.statusCode = 400
        res.end('first')
        res.setHeader('x-late', '1')
        res.statusCode = 201
        res.end('second')
      } else if (key === 'late') {
        late = sleep(900).then(() => {
          res.statusCode = 201
          res.setHeader('x-late', '1')
          res.end('late')
        })
      } else res.destroy()
    })
    expect(await send(place.started.base, 'two')).toMatchObject({ status: 400, text: 'first' })
    expect((await send(place.started.base, 'late')).status).toBeGreaterThanOrEqual(500)
    await late
    expect((await send(place.started.base, 'destroyed')).status).toBeGreaterThanOrEqual(500)
    for (const key of ['two', 'late', 'destroyed']) expect(await place.world.effects(key)).toBe(0)
  })

  it('a client that leaves: the operation goes on, and a retry has its answer', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      await sleep(100)
      res.end('made')
    })
    const session = connect(place.started.base)
    const stream = session.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': '"left"' })
    stream.on('error', () => {})
    stream.end()
    await sleep(40)
    stream.close(8)
    await sleep(200)
    session.destroy()
    expect(await place.world.effects('left')).toBe(1)
  })

  it('a body counts, though HTTP/2 does not announce it, and the handler can read it', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      res.end('made')
    })
    const large = JSON.stringify({ text: 'x'.repeat(300_000) })
    expect(await send(place.started.base, 'body', large)).toMatchObject({ status: 200 })
    expect(await send(place.started.base, 'body', large)).toMatchObject({ status: 200 })
    expect(await send(place.started.base, 'body', large.replace('x', 'y'))).toMatchObject({ status: 422 })
  })
})

describe('an answer with two lines of a header that was stored over HTTP/1.1', () => {
  const place = worldOfEachTest()

  it('is one with a list over HTTP/2', async () => {
    const idempotent = onNode(place.world.once, { ...OPTIONS, onError: () => {} })
    const listener = idempotent((_req, res) => {
      res.setHeader('content-language', ['en', 'de'])
      res.setHeader('link', ['</a>', '</b>'])
      res.end('made')
    })
    place.started = await listenHttp1(createHttp1Server(listener))
    await new Client(place.started.base).send({ key: '"k"' })
    await place.started.close()
    place.started = await listen(createServer((req, res) => listener(req as never, res as never)))
    const { status, headers } = await send(place.started.base, 'k')
    expect([status, headers['content-language'], headers['link']]).toEqual([200, 'en, de', '</a>, </b>'])
    expect(headers['idempotent-replayed']).toBe('true')
  })
})
