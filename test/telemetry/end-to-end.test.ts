import { randomBytes } from 'node:crypto'
import * as api from '@opentelemetry/api'
import { afterAll, expect, inject, it } from 'vitest'
import { otel } from '../../src/telemetry/otel.ts'
import { nats } from '../broker/support/nats.ts'
import { describePostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { collectSpans, treeOf } from './support/collector.ts'
import { events, listen, openShop } from './support/shop.ts'

const server = inject('servers').nats

/** An HTTP request, its operation, its event over NATS, and the handler of a consumer: one trace. */
describePostgres('a trace over a broker', (database) => {
  const collected = collectSpans()
  afterAll(() => collected.stop())

  it.skipIf('missing' in server)('begins at the request and ends in the handler of the consumer', async () => {
    if ('missing' in server) return
    const place = `trace_${randomBytes(4).toString('hex')}`
    const broker = await nats.open({ url: server.url, place, make: true })
    const { tracing } = otel(api, { tracer: collected.tracer })
    const { once, place: placed, pool } = await openShop(database.url, { tracing })
    const web = await listen((req, res) =>
      collected.tracer.startActiveSpan('POST /orders', { kind: api.SpanKind.SERVER }, (span) => {
        res.on('finish', () => span.end())
        placed(req, res)
      }),
    )
    const seen: string[] = []
    const consumer = once.consumer(
      'billing',
      { from: broker.source?.(events) as NonNullable<ReturnType<NonNullable<typeof broker.source>>> },
      {
        'order.placed': async (event, op) => {
          await op.publish('order.billed', { id: event.data.id })
        },
        'order.billed': async ({ headers }) => void seen.push(headers['causationid'] ?? ''),
      },
    )
    const relay = await once.relay({ to: broker.sink() }).start()
    await consumer.start()
    const response = await fetch(web.url, {
      method: 'POST',
      headers: { 'idempotency-key': 'one', 'x-tenant': 'ann' },
      body: JSON.stringify({ id: 'o1', note: 'n' }),
    })
    expect(response.status).toBe(201)
    await until(() => seen.length === 1)
    await relay.stop()
    await consumer.stop()
    await once.close()
    web.server.close()
    await broker.remove()
    await broker.close()
    await pool.end()

    const spans = collected.spans()
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1)
    expect(treeOf(spans)).toEqual(
      [
        'POST /orders < root',
        'operation POST place < POST /orders',
        'claim < operation POST place',
        'handler < operation POST place',
        'commit < operation POST place',
        'publish outbox < handler',
        `send nats ${place} < publish outbox`,
        `consume nats ${place} < publish outbox`,
        `claim < consume nats ${place}`,
        `handler < consume nats ${place}`,
        `commit < consume nats ${place}`,
        'publish outbox < handler',
        `send nats ${place} < publish outbox`,
        `consume nats ${place} < publish outbox`,
        `claim < consume nats ${place}`,
        `handler < consume nats ${place}`,
        `commit < consume nats ${place}`,
      ].toSorted(),
    )
    const consumed = spans.find(({ name }) => name.startsWith('consume'))
    expect(consumed).toMatchObject({
      kind: api.SpanKind.CONSUMER,
      attributes: {
        'messaging.system': 'nats',
        'messaging.operation.type': 'process',
        'messaging.consumer.group.name': 'billing',
      },
    })
    // The cause is the event before it.
    const published = spans.filter(({ name }) => name === 'publish outbox').map(({ attributes }) => attributes)
    expect(published.map((attributes) => attributes['messaging.message.id'])).toContain(seen[0])
  })
})
