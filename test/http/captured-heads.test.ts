import { createServer } from 'node:http'
import { connect } from 'node:net'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { createAdaptorServer } from '@hono/node-server'
import { describe, expect, it } from 'vitest'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { ADAPTERS, type RawHandler } from './raw-handlers.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen } from './world.ts'

/** Every byte of one answer, each as one character. */
function bytesFrom(base: string, key: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    let seen = ''
    socket.setEncoding('latin1').on('data', (text: string) => (seen += text))
    socket.on('end', () => resolve(seen)).on('error', reject)
    socket.write(
      `POST /orders HTTP/1.1\r\nhost: a\r\nconnection: close\r\nidempotency-key: ${key}\r\ncontent-length: 0\r\n\r\n`,
    )
  })
}

const place = worldOfEachTest()

/** Each says a header beyond ASCII: Node's own encoding of it depends on what leaves with the head. */
const ENCODED: Record<string, RawHandler> = {
  'a text': (res) => void res.end('text'),
  'a text after a head': (res) => void res.writeHead(200).end('text'),
  'a text with its length': (res) => {
    res.setHeader('content-length', 4).write('text')
    res.end()
  },
  'a chunk': (res) => {
    res.write('te')
    res.end('xt')
  },
  'bytes after a head': (res) => void res.writeHead(200).end(Buffer.from('text')),
  'a text of another encoding': (res) => void res.end('text', 'latin1'),
  nothing: (res) => void res.end(),
  'a text under a status without a body': (res) => {
    res.statusCode = 304
    res.end('text')
  },
  'an empty text after a head': (res) => void res.writeHead(200).end(''),
  'an empty piece': (res) => {
    res.write('')
    res.end('text')
  },
  'a head that was flushed': (res) => {
    res.flushHeaders()
    res.end('text')
  },
}

describe.each(Object.entries(ADAPTERS))('the head of an answer, on %s', (_name, open) => {
  it.each(Object.entries(ENCODED))('beyond ASCII, with %s, is that of Node', async (_what, answer) => {
    const handler: RawHandler = (res) => {
      res.statusCode = 200
      res.setHeader('link', '</é>; rel=next').setHeader('set-cookie', ['a=é', 'b=1'])
      return answer(res, undefined as never)
    }
    const plain = await listen(createServer((_req, res) => handler(res, undefined as never)))
    const expected = await bytesFrom(plain.base, 'k')
    await plain.close()
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      await handler(res, undefined as never)
    })
    const first = await bytesFrom(place.started.base, 'k')
    const again = await bytesFrom(place.started.base, 'k')
    const linkOf = (text: string): string | undefined => /\r\nlink: (.*)\r\n/i.exec(text)?.[1]
    expect(linkOf(expected)).toMatch(/[\x80-\xff]/)
    expect([linkOf(first), linkOf(again)]).toEqual([linkOf(expected), linkOf(expected)])
    expect(/set-cookie: a=(.*)\r/i.exec(first)?.[1]).toBe(/set-cookie: a=(.*)\r/i.exec(expected)?.[1])
    expect(await place.world.effects('k')).toBe(1)
  })

  it('is not changed by who writes into a list that stood there', async () => {
    place.started = await open(place.world, async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 200
      res.setHeader('set-cookie', ['a=1'])
      const list = res.getHeader('set-cookie') as string[]
      res.write('te')
      list.push('b=2')
      res.end('xt')
      list.push('c=3')
    })
    const seen = await new Client(place.started.base).send({ key: 'k' })
    expect([seen.status, seen.text, seen.headers.getSetCookie()]).toEqual([200, 'text', ['a=1']])
  })
})

describe('a part of a file', () => {
  it('is replayed with the range it is', async () => {
    const app = express()
    app.post(
      '/orders',
      onExpress(place.world.once, { scope: 'global' })((_req, res) => {
        res.status(206).set('content-range', 'bytes 2-5/10').send('part')
      }),
    )
    place.started = await listen(createServer(app))
    const client = new Client(place.started.base)
    for (let n = 0; n < 2; n++) {
      const seen = await client.send({ key: 'k' })
      expect([seen.status, seen.text, seen.headers.get('content-range')]).toEqual([206, 'part', 'bytes 2-5/10'])
    }
  })
})

describe('a throw while hooks are busy with the answer', () => {
  it.each(['end well', 'fail'])('is answered instead of it, without effect, though they %s', async (how) => {
    const app = Fastify({ forceCloseConnections: true })
    app.addHook('onSend', async (_request, reply, payload) => {
      await new Promise((resolve) => setTimeout(resolve, 10))
      if (how === 'fail' && reply.statusCode === 201) throw new Error('a hook')
      return payload
    })
    app.post(
      '/orders',
      onFastify(place.world.once, { scope: 'global' })(async (_request, reply, { tx, key }) => {
        await effect(tx, key)
        void reply.code(201).header('x-first', '1').send({ made: true })
        throw new Error('after')
      }),
    )
    place.started = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const seen = await new Client(place.started.base).send({ key: 'k' })
    expect([seen.status, JSON.parse(seen.text).message, seen.headers.get('x-first')]).toEqual([500, 'after', null])
    expect(await place.world.effects('k')).toBe(0)
  })
})

describe('a Koa response that a layer before the route has taken', () => {
  it('is answered by the route all the same', async () => {
    const app = new Koa()
    app.silent = true
    app.use((ctx, next) => {
      ctx.respond = false
      return next()
    })
    app.use(onKoa(place.world.once, { scope: 'global' })())
    app.use((ctx) => void ctx.res.writeHead(201).end('made'))
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const client = new Client(place.started.base)
    for (const key of ['k', 'k', undefined]) {
      const seen = await Promise.race([client.send({ key }), new Promise<null>((done) => setTimeout(done, 2000, null))])
      expect(seen?.status).toBe(key === undefined ? 400 : 201)
    }
  })
})

describe('a Response of Hono without a type of its own', () => {
  it('has the same one on a replay', async () => {
    const app = new Hono()
    const answer = async (): Promise<Response> => new Response('text', { headers: { 'x-a': '1' } })
    app.post('/orders', onHono(place.world.once, { scope: 'global' })(), answer)
    place.started = await listen(createAdaptorServer({ fetch: app.fetch }) as ReturnType<typeof createServer>)
    const client = new Client(place.started.base)
    const [first, again] = [await client.send({ key: 'k' }), await client.send({ key: 'k' })]
    expect(first.headers.get('content-type')).toMatch(/^text\/plain/)
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
  })
})
