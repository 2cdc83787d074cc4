import { createServer, request as send, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import express from 'express'
// @ts-expect-error -- it has no types of its own
import express4 from 'express4'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { getRequestListener } from '@hono/node-server'
import { afterEach, describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { effectivelyOnce, type Once } from '../../src/index.ts'
import type { StreamOperation } from '../../src/operation/types.ts'
import type { MemoryTx } from '../../src/store/memory/database/memory-tx.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

type Op = StreamOperation<MemoryTx, {}>
type Shop = Once<MemoryTx, {}>
const RECORD = { streams: 'record', lease: '5s', resume: true } as const
const OPTIONS = { scope: 'global', onError: () => {} } as const
const runs: string[] = []
let gate = closedGate()

function closedGate() {
  let lift!: () => void
  const open = new Promise<void>((resolve) => (lift = resolve))
  return { open, lift }
}

/** What every application does, by the key's first word. The third run of a key succeeds. */
async function* words(op: Op): AsyncGenerator<string> {
  runs.push(op.key)
  yield `data: ${op.attempt}\n\n`
  if (op.key.startsWith('slow')) await gate.open
  if (op.key.startsWith('fails') && op.attempt < 3) throw new Error('the model is gone')
  yield 'data: end\n\n'
}

const big = (): string[] => Array.from({ length: 300 }, (_, n) => `${n}:${'x'.repeat(2_000)};`)

async function onResponse(res: ServerResponse, op: Op): Promise<void> {
  if (op.key.startsWith('throws')) throw new Error('before the head')
  if (op.key.startsWith('refuses')) return void res.writeHead(402, { 'set-cookie': 'a=b' }).end('no')
  if (op.key.startsWith('bare')) return void res.writeHead(Number(op.key.slice(5)), { 'set-cookie': 'a=b' }).end()
  if (op.key.startsWith('big')) return pipeline(Readable.from(big()), res)
  res.setHeader('content-type', 'text/event-stream')
  for await (const word of words(op)) res.write(word)
  res.end()
}

const APPS: Record<string, (once: Shop) => Promise<RequestListener> | RequestListener> = {
  node: (once) => onNode(once, OPTIONS)(RECORD, (_req, res, op) => onResponse(res, op)),
  'express 5': (once) =>
    express().post(
      '/',
      onExpress(once, OPTIONS)(RECORD, (_req, res, op) => onResponse(res.status(200), op)),
    ),
  'express 4': (once) =>
    (express4 as unknown as typeof express)().post(
      '/',
      onExpress(once, OPTIONS)(RECORD, (_req, res, op) => onResponse(res, op)),
    ),
  fastify: async (once) => {
    const app = Fastify()
    app.post(
      '/',
      onFastify(once, OPTIONS)(RECORD, async (_request, reply, op) => {
        if (op.key.startsWith('throws')) throw new Error('before the head')
        if (op.key.startsWith('refuses')) return reply.code(402).header('set-cookie', 'a=b').send('no')
        if (op.key.startsWith('bare'))
          return reply
            .code(Number(op.key.slice(5)))
            .header('set-cookie', 'a=b')
            .send()
        if (op.key.startsWith('big')) return Readable.from(big())
        return reply.type('text/event-stream').send(Readable.from(words(op)))
      }),
    )
    await app.ready()
    return (req, res) => app.routing(req, res)
  },
  hono: (once) => {
    const app = new Hono()
    app.post('/', onHono(once, OPTIONS)(RECORD), (c) => {
      const op: Op = c.var.once
      if (op.key.startsWith('throws')) throw new Error('before the head')
      if (op.key.startsWith('refuses')) return c.text('no', 402, { 'set-cookie': 'a=b' })
      if (op.key.startsWith('bare')) return c.body(null, Number(op.key.slice(5)) as 204, { 'set-cookie': 'a=b' })
      if (op.key.startsWith('big')) return c.body(Readable.toWeb(Readable.from(big())) as ReadableStream)
      const body = Readable.toWeb(Readable.from(words(op))) as ReadableStream
      return c.body(body, 200, { 'content-type': 'text/event-stream' })
    })
    const listener = getRequestListener(app.fetch)
    return (req, res) => void listener(req, res)
  },
}

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  runs.length = 0
  gate = closedGate()
  for (const close of opened.splice(0)) await close()
})

async function serve(app: (once: Shop) => Promise<RequestListener> | RequestListener): Promise<string> {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const server = createServer(await app(once))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  opened.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await once.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const post = (base: string, key: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(base, { method: 'POST', headers: { 'idempotency-key': key, ...headers } })

describe.each(Object.entries(APPS))('recorded streams on %s', (_name, app) => {
  it('records, replays, and goes on behind an event', async () => {
    const base = await serve(app)
    const first = await post(base, 'plain')
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([200, null])
    const text = await first.text()
    expect(text).toBe('id: @17\ndata: 1\n\nid: @36\ndata: end\n\n')
    const again = await post(base, 'plain')
    expect([again.headers.get('idempotent-replayed'), again.headers.get('content-type')]).toEqual([
      'true',
      'text/event-stream',
    ])
    expect(await again.text()).toBe(text)
    expect(await (await post(base, 'plain', { 'last-event-id': '@17' })).text()).toBe(text.slice(17))
    expect((await post(base, 'plain', { 'stream-offset': '37' })).status).toBe(416)
    expect(runs.filter((key) => key === 'plain')).toHaveLength(1)
  })

  it('sends the first event at once, and a duplicate follows', async () => {
    const base = await serve(app)
    const responses = await Promise.all([post(base, 'slow'), post(base, 'slow'), post(base, 'slow')])
    const readers = responses.map((response) => response.body!.getReader())
    const firsts = await Promise.all(readers.map((reader) => reader.read()))
    for (const { value } of firsts) expect(new TextDecoder().decode(value)).toBe('id: @17\ndata: 1\n\n')
    gate.lift()
    const rest = await Promise.all(readers.map((reader) => reader.read()))
    for (const n of [0, 1, 2]) {
      const text = new TextDecoder().decode(Buffer.concat([firsts[n]!.value!, rest[n]!.value!]))
      expect(text).toBe('id: @17\ndata: 1\n\nid: @36\ndata: end\n\n')
    }
    expect(runs.splice(0)).toEqual(['slow'])
  })

  it('appends after a failure, and the client that left finds everything', async () => {
    const base = await serve(app)
    const first = await (await post(base, 'fails')).text()
    expect(first).toMatch(/^id: @17\ndata: 1\n\nevent: error\ndata: .*ONCE_STREAM_INTERRUPTED.*"offset":17/)
    await new Promise<void>((resolve) => {
      const leaving = send(
        base,
        { method: 'POST', headers: { 'idempotency-key': 'fails', 'content-length': 0 } },
        () => {
          leaving.destroy()
          resolve()
        },
      ).end()
      leaving.on('error', () => {})
    })
    await expect.poll(async () => (await post(base, 'fails', { 'stream-offset': '17' })).text()).toContain('data: end')
    const whole = await (await post(base, 'fails')).text()
    expect(whole.replaceAll(/id: @\d+\n/g, '')).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\ndata: end\n\n')
    expect(runs.splice(0)).toEqual(['fails', 'fails', 'fails'])
  })

  it('records more bytes than it may hold', async () => {
    const base = await serve(app)
    const whole = big().join('')
    for (const _round of [1, 2]) expect((await (await post(base, 'big')).text()) === whole).toBe(true)
    expect(await (await post(base, 'big', { 'stream-offset': '500000' })).text()).toBe(whole.slice(500_000))
  })

  it.each([204, 205, 304])('answers %i, which has no body, and replays it', async (status) => {
    const base = await serve(app)
    for (const [cookie, replayed] of [
      ['a=b', null],
      [null, 'true'],
    ]) {
      const answer = await post(base, `bare-${status}`)
      expect([answer.status, answer.headers.get('set-cookie'), await answer.text()]).toEqual([status, cookie, ''])
      expect(answer.headers.get('idempotent-replayed')).toBe(replayed)
    }
  })

  it('refuses and fails before the head like any other route', async () => {
    const base = await serve(app)
    const first = await post(base, 'refuses')
    expect([first.status, first.headers.get('set-cookie'), await first.text()]).toEqual([402, 'a=b', 'no'])
    const again = await post(base, 'refuses')
    expect([again.status, again.headers.get('set-cookie'), await again.text()]).toEqual([402, null, 'no'])
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    const error = console.error
    console.error = () => {}
    expect((await post(base, 'throws')).status).toBe(500)
    console.error = error
  })
})
