import { createServer } from 'node:http'
import { connect as connect2, constants, createServer as createServer2 } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx } from './world.ts'

const OPTIONS = { scope: 'global', deadline: '600ms' } as const

describe('a request that is cut off', () => {
  const place = worldOfEachTest()

  it.each(['reset', 'session'])('over HTTP/2 is not taken for a whole one (%s)', async (how) => {
    const bodies: string[] = []
    const idempotent = onNode(place.world.once, { ...OPTIONS, onError: () => {} })
    const listener = idempotent(async (req, res, { tx, key }) => {
      await effect(tx, key)
      let text = ''
      for await (const chunk of req) text += String(chunk)
      bodies.push(text)
      res.end('made')
    })
    const server = createServer2((req, res) => listener(req as never, res as never))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const session = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    try {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/orders',
        'content-type': 'application/x-www-form-urlencoded',
        'idempotency-key': 'k',
      })
      stream.on('error', () => {})
      session.on('error', () => {})
      stream.write('amount=1')
      await sleep(100)
      // Its `close` would send a whole body first.
      if (how === 'reset') stream.destroy()
      else session.destroy()
      await sleep(300)
      expect(bodies).toEqual([])
      expect(await place.world.effects('k')).toBe(0)
    } finally {
      session.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })

  it('over HTTP/2 is not taken for a whole one where a parser ran first', async () => {
    const bodies: unknown[] = []
    const app = Fastify({ http2: true })
    app.post(
      '/orders',
      onFastify(
        place.world.once,
        OPTIONS as never,
      )(async (request, reply, { tx, key }) => {
        await effect(tx, key)
        bodies.push(request.body)
        return reply.send('made')
      }) as never,
    )
    place.started = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const session = connect2(place.started.base)
    session.on('error', () => {})
    const stream = session.request({
      ':method': 'POST',
      ':path': '/orders',
      'content-type': 'text/plain',
      'idempotency-key': 'k',
    })
    stream.on('error', () => {})
    stream.write('amount=1')
    await sleep(100)
    stream.destroy()
    await sleep(300)
    session.destroy()
    expect(bodies).toEqual([])
    expect(await place.world.effects('k')).toBe(0)
  })

  /** A middleware is at work for a while before the route is reached. */
  function slowApp(): { app: Koa; isOver: () => boolean } {
    let over = false
    const app = new Koa()
    app.silent = true
    app.use(async (_ctx, next) => {
      try {
        await sleep(200)
        await next()
      } finally {
        over = true
      }
    })
    app.use(onKoa(place.world.once, OPTIONS)())
    app.use(async (ctx) => {
      await effect((ctx.state['once'] as { tx: QueryTx }).tx, 'k')
      ctx.body = 'made'
    })
    return { app, isOver: () => over }
  }

  it('before the route was reached does not keep Koa waiting', async () => {
    const { app, isOver } = slowApp()
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const socket = connect(Number(new URL(place.started.base).port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write('POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 100\r\n\r\namount=1')
    await sleep(100)
    socket.destroy()
    await sleep(600)
    expect(isOver()).toBe(true)
    expect(await place.world.effects('k')).toBe(0)
  })

  it('over HTTP/2 before the route was reached ends too', async () => {
    const { app, isOver } = slowApp()
    const listener = app.callback()
    const server = createServer2((req, res) => void listener(req as never, res as never))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const session = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    try {
      const stream = session.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k' })
      stream.on('error', () => {})
      stream.write('amount=1')
      await sleep(100)
      stream.close(constants.NGHTTP2_CANCEL)
      await sleep(600)
      expect(isOver()).toBe(true)
      expect(await place.world.effects('k')).toBe(0)
    } finally {
      session.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })

  it.each([
    [1000, 200],
    [1001, 413],
  ])('over HTTP/2, one of %i bytes is answered with %i where 1000 are allowed', async (bytes, expected) => {
    const idempotent = onNode(place.world.once, { ...OPTIONS, bodyLimit: 1000, onError: () => {} })
    const listener = idempotent(async (_req, res) => void res.end('made'))
    const server = createServer2((req, res) => listener(req as never, res as never))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const session = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    try {
      const stream = session.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k' })
      stream.on('error', () => {})
      stream.end(Buffer.alloc(bytes))
      const status = await new Promise((resolve) => stream.on('response', (headers) => resolve(headers[':status'])))
      expect(status).toBe(expected)
    } finally {
      session.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })

  it('over HTTP/2, one that is too large is refused before it has ended', async () => {
    const idempotent = onNode(place.world.once, { ...OPTIONS, bodyLimit: 1000, onError: () => {} })
    const listener = idempotent(async (_req, res) => void res.end('made'))
    const server = createServer2((req, res) => listener(req as never, res as never))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const session = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    try {
      const stream = session.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k' })
      stream.on('error', () => {})
      stream.write(Buffer.alloc(2000))
      const status = await Promise.race([
        new Promise((resolve) => stream.on('response', (headers) => resolve(headers[':status']))),
        sleep(2000).then(() => 'nothing'),
      ])
      expect(status).toBe(413)
    } finally {
      session.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})
