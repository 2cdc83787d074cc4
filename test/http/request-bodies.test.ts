import { once } from 'node:events'
import { createServer, IncomingMessage, ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { listen, type Started, type World } from './world.ts'

type Layer = (req: IncomingMessage & { rawBody?: string }, next: () => unknown) => unknown
type Handler = (req: IncomingMessage, res: ServerResponse) => unknown

const OPTIONS = { scope: 'global', deadline: '600ms' } as const

/** A layer that looks at the request, and a handler that reads it from Node's own stream. */
const ADAPTERS: Record<string, (world: World, layer: Layer, handler: Handler) => Promise<Started>> = {
  node: (world, layer, handler) => {
    const listener = onNode(world.once, OPTIONS)((req, res) => handler(req, res))
    return listen(createServer((req, res) => void layer(req, () => listener(req, res))))
  },
  express: (world, layer, handler) => {
    const app = express()
    app.use((req, _res, next) => void layer(req, next))
    app.post('/', onExpress(world.once, OPTIONS)(handler))
    return listen(createServer(app))
  },
  koa: (world, layer, handler) => {
    const app = new Koa()
    app.use((ctx, next) =>
      layer(ctx.req, () => {
        Object.assign(ctx.request, { rawBody: Reflect.get(ctx.req, 'rawBody') })
        return next()
      }),
    )
    app.use(onKoa(world.once, OPTIONS)())
    app.use(async (ctx) => {
      ctx.respond = false
      await handler(ctx.req, ctx.res)
    })
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
}

async function read(req: IncomingMessage): Promise<string> {
  let text = ''
  req.on('data', (chunk) => (text += String(chunk)))
  await once(req, 'end')
  return text
}

/** All a server says to these bytes, until it closes the connection. */
async function say({ base }: Started, head: string, ...pieces: (string | Uint8Array)[]): Promise<string> {
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  const lines = ['POST / HTTP/1.1', 'host: localhost', 'connection: close', 'idempotency-key: k', head]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  let text = ''
  socket.on('data', (chunk) => (text += String(chunk)))
  void (async () => {
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) await sleep(30)
      socket.write(piece)
    }
  })()
  await once(socket, 'close')
  return text
}

describe.each(Object.entries(ADAPTERS))('the body of a request, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const answer: Handler = async (req, res) => void res.writeHead(200).end(`read ${JSON.stringify(await read(req))}`)

  it.each([
    ['at once', (_req, next) => next()],
    ['after a wait', (_req, next) => sleep(20).then(next)],
  ] satisfies [string, Layer][])(
    'one that is empty, and sent in chunks, has an end for the handler (%s)',
    async (_when, layer) => {
      place.started = await open(place.world, layer, answer)
      expect(await say(place.started, 'transfer-encoding: chunked', '0\r\n\r\n')).toContain('read ""')
      expect(await say(place.started, 'transfer-encoding: chunked', '0\r\n\r\n')).toContain('replayed')
    },
  )

  it.each(['utf8', 'hex'] as const)('one that a layer wants as text is text for the handler (%s)', async (encoding) => {
    const layer: Layer = (req, next) => {
      req.setEncoding(encoding)
      return next()
    }
    place.started = await open(place.world, layer, answer)
    const bytes = Buffer.from('grün')
    // One of its characters is cut in two.
    const pieces = [bytes.subarray(0, 3), bytes.subarray(3)]
    const length = `content-length: ${bytes.byteLength}`
    expect(await say(place.started, length, ...pieces)).toContain(`read "${bytes.toString(encoding)}"`)
    expect(await say(place.started, length, ...pieces)).toContain('replayed')
    expect(await say(place.started, length, 'grau!')).toContain('ONCE_MISMATCH')
  })

  it('one that a layer still reads is not read twice', async () => {
    const seen: string[] = []
    const layer: Layer = (req, next) => {
      req.on('data', (chunk) => seen.push(String(chunk)))
      return next()
    }
    place.started = await open(place.world, layer, answer)
    expect(await say(place.started, 'content-length: 3', 'abc')).toContain('ONCE_BODY_UNSEEN')
    expect(seen.join('')).toBe('abc')
  })

  it('bytes that a layer still collects are not taken for all of them', async () => {
    const layer: Layer = (req, next) => {
      req.rawBody = ''
      req.on('data', (chunk) => (req.rawBody += String(chunk)))
      return next()
    }
    place.started = await open(place.world, layer, (_req, res) => res.writeHead(200).end('made'))
    for (const body of ['abc', 'xyz'])
      expect(await say(place.started, 'content-length: 3', body)).toContain('ONCE_BODY_UNSEEN')
  })

  it('bytes that a layer has collected stand for the body', async () => {
    const layer: Layer = async (req, next) => {
      req.rawBody = await read(req)
      return next()
    }
    place.started = await open(place.world, layer, (_req, res) => res.writeHead(200).end('made'))
    expect(await say(place.started, 'content-length: 3', 'abc')).toContain('made')
    expect(await say(place.started, 'content-length: 3', 'xyz')).toContain('ONCE_MISMATCH')
  })
})

/** As hosts of functions (`complete` from the start) and `inject` of tests (never) make them: pushed when it is read. */
class MadeRequest extends IncomingMessage {
  readonly #bytes: Buffer

  constructor(complete: boolean, bytes: Buffer) {
    super(new Socket())
    this.#bytes = bytes
    Object.assign(this, { complete, method: 'POST', url: '/', httpVersionMajor: 1 })
    this.headers = { 'idempotency-key': 'k', 'content-length': String(bytes.byteLength) }
  }

  override _read(): void {
    this.push(this.#bytes)
    this.push(null)
  }
}

describe.each([true, false])('a request that no server has made (complete: %s)', (complete) => {
  const place = worldOfEachTest()

  it('has its body, for the fingerprint and for the handler', async () => {
    const listener = onNode(
      place.world.once,
      OPTIONS,
    )(async (req, res) => void res.writeHead(200).end(`read ${await read(req)}`))
    const send = async (body: string): Promise<string> => {
      const req = new MadeRequest(complete, Buffer.from(body))
      const res = new ServerResponse(req)
      const wire = new PassThrough()
      let said = ''
      wire.on('data', (chunk) => (said += String(chunk)))
      res.assignSocket(wire as unknown as Socket)
      listener(req, res)
      await once(res, 'finish')
      return said
    }
    expect(await send('abc')).toContain('read abc')
    expect(await send('abc')).toContain('replayed')
    expect(await send('xyz')).toContain('ONCE_MISMATCH')
  })
})
