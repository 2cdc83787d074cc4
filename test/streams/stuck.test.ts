import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { effectivelyOnce } from '../../src/index.ts'
import type { OnceInstance } from '../../src/once/once.ts'
import type { StreamOperation } from '../../src/operation/types.ts'
import { MemoryDatabase } from '../../src/store/memory/database/database.ts'
import type { MemoryTx } from '../../src/store/memory/database/memory-tx.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { until } from '../support/until.ts'

const RECORD = { streams: 'record', lease: '1s', resume: true } as const
const NDJSON = { headers: { 'content-type': 'application/x-ndjson' } }
/** A loop without a pause would never let a timer of this test run. */
const READS_MAX = 500
type Op = StreamOperation<MemoryTx, {}>

function open(database = new MemoryDatabase()) {
  const store = memoryStore({ database })
  const read = store.read.bind(store)
  const seen = { reads: 0 }
  store.read = (of) => {
    if (++seen.reads > READS_MAX) throw new Error('the record is read without a pause')
    return read(of)
  }
  const once = effectivelyOnce({ namespace: 'x', store, guard: 'off', sweep: false })
  const lose = (): void => (once as unknown as OnceInstance<unknown, {}>).core.heartbeat.stop()
  return { database, seen, lose, once, idempotent: idempotency(once, { scope: 'global', onError: () => {} }) }
}

const post = (): Request =>
  new Request('http://x/answers', { method: 'POST', body: '{}', headers: { 'idempotency-key': 'k' } })
const never = (): Promise<never> => new Promise(() => {})
const codeOf = async (response: Response): Promise<unknown> => ((await response.json()) as { code: unknown }).code

describe('an attempt that lost its lease before the head', () => {
  it.each(['the handler stalls', 'the body of a refusal stalls'])(
    'makes way at once: %s',
    async (where) => {
      const { idempotent, lose } = open()
      let runs = 0
      const POST = idempotent(RECORD, async () => {
        if (++runs > 1) return new Response('1\n', NDJSON)
        return where === 'the handler stalls' ? never() : new Response(new ReadableStream(), { status: 402 })
      })
      const first = POST(post())
      await until(() => runs === 1)
      lose()
      const second = POST(post())
      expect(await codeOf(await first)).toBe('ONCE_LEASE_LOST')
      expect([await (await second).text(), runs]).toEqual(['1\n', 2])
    },
    10_000,
  )

  it('ends what its handler makes afterwards', async () => {
    const { idempotent, lose } = open()
    let called = false
    let answer = (_: Response): void => {}
    const POST = idempotent(RECORD, () => {
      called = true
      return new Promise<Response>((resolve) => (answer = resolve))
    })
    const first = POST(post())
    await until(() => called)
    lose()
    expect(await codeOf(await first)).toBe('ONCE_LEASE_LOST')
    let isCancelled = false
    answer(new Response(new ReadableStream({ cancel: () => void (isCancelled = true) }), NDJSON))
    await until(() => isCancelled, 1_000)
  }, 10_000)

  it('closes the response of its handler on node:http', async () => {
    const { once, lose } = open()
    const seen: string[] = []
    const listener = onNode(once, { scope: 'global', onError: () => {} })(RECORD, async (_req, res) => {
      seen.push('called')
      res.once('close', () => seen.push('closed'))
      await never()
    })
    const server = createServer(listener).listen(0)
    const { port } = server.address() as AddressInfo
    const first = fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'idempotency-key': 'k' } })
    await until(() => seen.includes('called'))
    lose()
    expect(await codeOf(await first)).toBe('ONCE_LEASE_LOST')
    await until(() => seen.includes('closed'), 1_000)
    server.close()
  }, 10_000)

  it('is not waited for without a pause while a call of it goes on', async () => {
    const { idempotent, lose, seen } = open()
    let called = false
    const stalls = idempotent({ ...RECORD, endsWithin: '30s' }, async (_request: Request, op: Op) => {
      called = true
      return op.step('call', never)
    })
    void stalls(post())
    await until(() => called)
    lose()
    const late = idempotent({ ...RECORD, endsWithin: '3s' }, async () => new Response('1\n', NDJSON))
    const from = performance.now()
    const answer = await late(post())
    expect([answer.status, await codeOf(answer)]).toEqual([409, 'ONCE_IN_FLIGHT'])
    expect(performance.now() - from).toBeGreaterThan(2_900)
    expect(seen.reads).toBeLessThan(50)
  }, 10_000)

  it('does not make the clients that read another attempt look without a pause', async () => {
    const { idempotent, lose, seen, database } = open()
    let called = false
    const stalls = idempotent({ ...RECORD, endsWithin: '30s' }, async (_request: Request, op: Op) => {
      called = true
      return op.step('call', never)
    })
    void stalls(post())
    await until(() => called)
    lose()
    const other = open(database)
    const writes = other.idempotent(RECORD, () => {
      const body = new ReadableStream({ start: (made) => made.enqueue(new TextEncoder().encode('1\n')) })
      return new Response(body, NDJSON)
    })
    const writing = (await writes(post())).body!.getReader()
    expect(await writing.read()).toMatchObject({ done: false })
    const follows = idempotent({ ...RECORD, endsWithin: '4s' }, async () => new Response('2\n', NDJSON))
    const following = (await follows(post())).text()
    other.lose()
    const text = await following
    expect(text).toMatch(/^1\n\{"error":\{.*"code":"ONCE_STREAM_INTERRUPTED".*\}\}\n$/)
    expect(seen.reads).toBeLessThan(60)
  }, 15_000)
})
