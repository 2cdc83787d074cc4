import { expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { effectivelyOnce, event, inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const events = { 'charge.made': event<{ id: string }>(({ id }) => id) }

it('events carry the trace of the HTTP request that published them', async () => {
  const once = effectivelyOnce({ namespace: 'trace', store: memoryStore(), events, sweep: false, guard: 'off' })
  const idempotent = idempotency(once, { scope: 'global' })
  const post = idempotent(async (_request, { publish }) => {
    await publish('charge.made', { id: 'a' })
    return new Response('ok', { status: 201 })
  })
  const request = (key: string, traceparent: string): Request =>
    new Request('http://here/charges', { method: 'POST', headers: { 'idempotency-key': key, traceparent } })
  expect((await post(request('one-key-0001', TRACE))).status).toBe(201)
  expect((await post(request('one-key-0002', 'of nobody'))).status).toBe(201)
  const seen: OutgoingEvent[] = []
  await once.relay({ to: inProcessSink((sent) => void seen.push(sent)) }).drain()
  expect(seen.map(({ traceparent }) => traceparent)).toEqual([TRACE, undefined])
  await once.close()
})
