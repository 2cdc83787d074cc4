import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { effectivelyOnce, type Once } from '../../src/index.ts'
import type { MemoryTx } from '../../src/store/memory/database/memory-tx.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { until } from '../support/until.ts'

type Shop = Once<MemoryTx, {}>
type Work = () => Promise<string>
const RECORD = { streams: 'record', lease: '5s' } as const
const OPTIONS = { scope: 'global', onError: () => {} } as const
const LOOK_MS = 1_200

/** Each answers when the work is done. */
const APPS: Record<string, (once: Shop, work: Work) => Promise<RequestListener> | RequestListener> = {
  fetch: (once, work) => {
    const POST = onFetch(once, OPTIONS)(RECORD, async () => new Response(await work()))
    const listener = getRequestListener((request) => POST(request))
    return (req, res) => void listener(req, res)
  },
  hono: (once, work) => {
    const app = new Hono()
    app.post('/', onHono(once, OPTIONS)(RECORD), async (c) => c.text(await work()))
    const listener = getRequestListener(app.fetch)
    return (req, res) => void listener(req, res)
  },
  node: (once, work) => onNode(once, OPTIONS)(RECORD, async (_req, res) => void res.end(await work())),
  express: (once, work) =>
    express().post(
      '/',
      onExpress(once, OPTIONS)(RECORD, async (_req, res) => void res.send(await work())),
    ),
  fastify: async (once, work) => {
    const app = Fastify()
    app.post('/', onFastify(once, OPTIONS)(RECORD, work))
    await app.ready()
    return (req, res) => app.routing(req, res)
  },
}

it.each(Object.entries(APPS))('nobody looks for a client that left before the head, on %s', async (_name, app) => {
  const store = memoryStore()
  const read = store.read.bind(store)
  let reads = 0
  store.read = (of) => {
    reads++
    return read(of)
  }
  const once = effectivelyOnce({ namespace: 'x', store, guard: 'off', sweep: false })
  let runs = 0
  let finish = (): void => {}
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const listener = await app(once, async () => {
    runs++
    await finished
    return 'done'
  })
  const left: Promise<void>[] = []
  const server = createServer((req, res: ServerResponse) => {
    left.push(new Promise((resolve) => res.once('close', resolve)))
    listener(req, res)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const post = (signal?: AbortSignal): Promise<Response> =>
    fetch(base, { method: 'POST', headers: { 'idempotency-key': 'k' }, ...(signal ? { signal } : {}) })
  const first = post()
  await until(() => runs === 1)
  const leaving = new AbortController()
  const second = post(leaving.signal)
  await until(() => reads > 2)
  leaving.abort()
  await expect(second).rejects.toThrow('aborted')
  await left[1]
  await new Promise((resolve) => setTimeout(resolve, 100))
  const before = reads
  await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  expect(reads).toBe(before)
  finish()
  expect([await (await first).text(), await (await post()).text(), runs]).toEqual(['done', 'done', 1])
  server.closeAllConnections()
  server.close()
  await once.close()
})

it('a reader of the body does not take the rest for the end when the client has left', async () => {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const POST = onFetch(once, OPTIONS)(RECORD, () => {
    const body = new ReadableStream({ start: (made) => made.enqueue(new TextEncoder().encode('1\n')) })
    return new Response(body, { headers: { 'content-type': 'application/x-ndjson' } })
  })
  const client = new AbortController()
  const headers = { 'idempotency-key': 'k' }
  const answer = await POST(new Request('http://x/', { method: 'POST', headers, signal: client.signal }))
  const reader = answer.body!.getReader()
  expect(await reader.read()).toMatchObject({ done: false })
  client.abort(new Error('the client left'))
  await expect(reader.read()).rejects.toThrow('the client left')
  await once.close({ within: '1s' })
})
