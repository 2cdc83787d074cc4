import * as api from '@opentelemetry/api'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { effectivelyOnce } from '../once/once.ts'
import { event } from '../outbox/event.ts'
import { inProcessSink } from '../sink/in-process.ts'
import type { OutgoingEvent } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { collectSpans, treeOf } from '../../test/telemetry/support/collector.ts'
import type { OtelTracer } from './otel-api.ts'
import { otel, type OtelOptions } from './otel.ts'

const collected = collectSpans()
let from = 0
const spans = (): ReturnType<typeof collected.spans> => collected.spans().slice(from)
afterEach(() => void (from = collected.spans().length))
afterAll(() => collected.stop())

const events = {
  'order.placed': event<{ id: string }>(({ id }) => id),
  'order.billed': event<{ id: string }>(({ id }) => id),
}

function instance(options: OtelOptions = { tracer: collected.tracer }) {
  const { tracing } = otel(api, options)
  return effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, tracing, guard: 'off', sweep: false })
}

describe('otel()', () => {
  it('refuses what is not the API', () => {
    expect(() => otel({} as never)).toThrow('@opentelemetry/api')
  })

  it('gives an operation a span, with its claim, its handler, its events and its commit', async () => {
    const once = instance()
    const work = async ({ publish }: { publish: (type: 'order.placed', data: { id: string }) => Promise<string> }) => {
      await publish('order.placed', { id: 'a' })
    }
    await once.run({ scope: 's', key: 'k1', input: 1 }, async function place(op) {
      await work(op)
    })
    await once.run({ scope: 's', key: 'k1', input: 1 }, async function place() {})
    await once.close()
    const [first] = spans().filter(({ name }) => name === 'operation place')
    const ofFirst = spans().filter((span) => span.spanContext().traceId === first?.spanContext().traceId)
    expect(treeOf(ofFirst)).toEqual([
      'claim < operation place',
      'commit < operation place',
      'handler < operation place',
      'operation place < root',
      'publish outbox < handler',
    ])
    expect(spans().map(({ attributes }) => attributes['effectively_once.outcome'])).toContain('replayed')
    const claim = spans().find(({ name }) => name === 'claim')
    expect(claim).toMatchObject({ kind: api.SpanKind.CLIENT, attributes: { 'db.operation.name': 'claim' } })
  })

  it('continues the trace of a request, with its state', async () => {
    const { tracing } = otel(api, { tracer: collected.tracer })
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const about = { kind: 'operation', route: 'POST /orders', id: 'x', store: 'memory' } as const
    for (const trace of [{ traceparent, tracestate: 'vendor=1' }, { traceparent }]) tracing.start(about, trace).end({})
    expect(spans().map((span) => [span.spanContext().traceId, span.spanContext().traceState?.serialize()])).toEqual([
      ['a'.repeat(32), 'vendor=1'],
      ['a'.repeat(32), undefined],
    ])
  })

  it('gives steps of a leased operation spans, and the commit holds the last transaction', async () => {
    const once = instance()
    const operation = { scope: 's', key: 'k2', input: 1, lease: '10s' as const }
    await once.run(operation, async function charge({ step, commit }) {
      await step('call', async () => 1)
      return commit(({ publish }) => publish('order.placed', { id: 'b' }))
    })
    await once.close()
    expect(treeOf(spans())).toEqual([
      'claim < operation charge',
      'commit < handler',
      'handler < operation charge',
      'operation charge < root',
      'publish outbox < commit',
      'step call < handler',
    ])
  })

  it('tells the type of an error, and not its text', async () => {
    const once = instance()
    const failing = once.run({ scope: 's', key: 'k3', input: 1 }, async function fail() {
      throw new TypeError('secret text')
    })
    await expect(failing).rejects.toThrow('secret text')
    await once.close()
    const operation = spans().find(({ name }) => name === 'operation fail')
    expect(operation).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'TypeError' }, events: [] })
    expect(operation?.status.message).toBeUndefined()
  })

  it('links an event to its sending, its consumers, and the events that they publish', async () => {
    const once = instance()
    const sent: OutgoingEvent[] = []
    const relay = once.relay({ to: inProcessSink((event) => void sent.push(event), { name: 'hook' }) })
    const consumer = once.consumer(
      'billing',
      { from: once.outbox },
      {
        'order.placed': (event, op) => op.publish('order.billed', { id: event.data.id }),
        'order.billed': async () => {},
      },
    )
    await once.run({ scope: 's', key: 'k4', input: 1 }, async function place({ publish }) {
      await publish('order.placed', { id: 'c' })
    })
    await relay.drain()
    await consumer.drain()
    await consumer.drain()
    await relay.drain()
    await once.close()
    expect(new Set(spans().map((span) => span.spanContext().traceId)).size).toBe(1)
    const tree = treeOf(spans())
    for (const link of [
      'publish outbox < handler',
      'send hook < publish outbox',
      'consume outbox < publish outbox',
      'handler < consume outbox',
    ])
      expect(tree).toContain(link)
    const [placed, billed] = sent
    expect(billed?.headers['causationid']).toBe(placed?.id)
    expect(billed?.traceparent?.split('-')[1]).toBe(placed?.traceparent?.split('-')[1])
  })

  it('belongs to the active span, or else to the trace of the request', async () => {
    const once = instance()
    await collected.tracer.startActiveSpan('request', async (request) => {
      await once.run({ scope: 's', key: 'k5', input: 1 }, async function place() {})
      request.end()
    })
    await once.close()
    expect(treeOf(spans())).toContain('operation place < request')
  })

  it('records nothing of an unsampled trace, and hands it on', async () => {
    const once = instance()
    const unsampled = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 0 }
    const context = api.trace.setSpanContext(api.ROOT_CONTEXT, unsampled)
    const sent: OutgoingEvent[] = []
    await api.context.with(context, () =>
      once.run({ scope: 's', key: 'k6', input: 1 }, async function place({ publish }) {
        await publish('order.placed', { id: 'd' })
      }),
    )
    await once.relay({ to: inProcessSink((event) => void sent.push(event)) }).drain()
    await once.close()
    expect(spans()).toEqual([])
    expect(sent[0]?.traceparent).toMatch(new RegExp(`^00-${unsampled.traceId}-[0-9a-f]{16}-00$`))
  })

  it('starts no span below a span that is not sampled, and its trace is the active one of every handler', async () => {
    let started = 0
    const startSpan: OtelTracer['startSpan'] = (...given) => {
      started++
      return collected.tracer.startSpan(...given)
    }
    const once = instance({ tracer: { startSpan } })
    const unsampled = { traceId: 'c'.repeat(32), spanId: 'd'.repeat(16), traceFlags: 0 }
    const seen: (string | undefined)[] = []
    const look = (): void => void seen.push(api.trace.getSpanContext(api.context.active())?.traceId)
    const consumer = once.consumer('billing', { from: once.outbox }, { 'order.placed': async () => look() })
    const place = (key: string): Promise<void> =>
      once.run({ scope: 's', key, input: key }, async function place({ publish }) {
        look()
        await publish('order.placed', { id: key })
      })
    await api.context.with(api.trace.setSpanContext(api.ROOT_CONTEXT, unsampled), () => place('k8'))
    await consumer.drain()
    expect(seen).toEqual([unsampled.traceId, unsampled.traceId])
    expect(started).toBe(0)
    // Without a parent, the sampler is asked.
    await place('k9')
    expect(started).toBeGreaterThan(0)
    await once.close()
  })

  it('lets an operation run whose tracer throws', async () => {
    const startSpan = (): never => {
      throw new Error('the sampler failed')
    }
    const once = instance({ tracer: { startSpan } })
    expect(await once.run({ scope: 's', key: 'k7', input: 1 }, async () => 7)).toBe(7)
    await once.close()
  })
})
