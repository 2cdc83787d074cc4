import * as api from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { afterAll, expect, it } from 'vitest'
import { final, inProcessSink } from '../../src/index.ts'
import { otel } from '../../src/telemetry/otel.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import type { Signal } from '../../src/observe/signal.ts'
import { describePostgres } from '../support/postgres.ts'
import { collectSpans } from './support/collector.ts'
import { listen, openShop, refusing } from './support/shop.ts'

const [KEY, SCOPE, BODY] = ['keymark', 'scopemark', 'bodymark']

/** Everything that is exported in a run whose keys, scopes and bodies are marked. */
describePostgres('telemetry', (database) => {
  const collected = collectSpans()
  afterAll(() => collected.stop())

  it('holds no key, no scope and no body', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60_000 })
    const provider = new MeterProvider({ readers: [reader] })
    const telemetry = otel(api, { tracer: collected.tracer, meter: provider.getMeter('test') })
    const metrics = prometheus()
    const observe = (signal: Signal): void => {
      telemetry.observe(signal)
      metrics.observe(signal)
    }
    const { once, place, pool } = await openShop(database.url, { observe, tracing: telemetry.tracing })
    telemetry.gauges(once)
    const web = await listen(place)
    const post = (key: string, note: string): Promise<Response> =>
      fetch(web.url, {
        method: 'POST',
        headers: { 'idempotency-key': `${KEY}-${key}`, 'x-tenant': `${SCOPE}-ann` },
        body: JSON.stringify({ id: `${BODY}-${key}`, note: `${BODY} ${note}` }),
      })
    const statuses: number[] = []
    for (const [key, note] of [
      ['1', 'a'],
      ['1', 'a'],
      ['1', 'b'],
      ['2', 'a'],
      ['3', 'fail'],
    ] as const)
      // prettier-ignore
      statuses.push((await post(key, note)).status)
    expect(statuses).toEqual([201, 201, 422, 201, 500])
    const operation = { scope: `${SCOPE}-bob`, key: `${KEY}-4`, input: BODY }
    await once.run({ ...operation, lease: '10s', label: `${BODY}-label` }, async function charge({ step, commit }) {
      await step('call', async () => BODY)
      return commit(() => BODY)
    })
    const refused = once.run({ ...operation, key: `${KEY}-5` }, async function refuse() {
      throw final({ status: 402, body: BODY })
    })
    await expect(refused).rejects.toThrow()
    await once.relay({ to: inProcessSink(() => {}, { name: 'hook' }) }).drain()
    await once.relay({ to: refusing('wall') }).drain()
    const handlers = {
      'order.placed': () => Promise.reject(new SyntaxError(`${KEY} ${SCOPE} ${BODY}`)),
      'order.billed': async () => {},
    }
    const consumer = once.consumer('billing', { from: once.outbox, attempts: 1 }, handlers)
    await consumer.drain()
    const text = await metrics.render(once)
    await provider.forceFlush()
    await once.close()
    web.server.closeAllConnections()
    web.server.close()
    await pool.end()

    // The run reached what it should have reached.
    for (const line of ['outcome="replayed"', 'ONCE_MISMATCH', 'consumer="billing"', 'destination="wall"'])
      expect(text).toContain(line)
    const spans = collected.spans().map(({ name, attributes, events, links, status }) => {
      return { name, attributes, events, links, status }
    })
    const kinds = new Set(spans.map(({ name }) => name.split(' ', 1)[0]))
    for (const kind of ['operation', 'claim', 'handler', 'step', 'commit', 'publish', 'send', 'consume'])
      expect(kinds).toContain(kind)
    expect(JSON.stringify(spans)).toContain('SyntaxError')
    const measured = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics)
    expect(measured.flatMap((scope) => scope.metrics).map(({ descriptor }) => descriptor.name)).toEqual(
      expect.arrayContaining([
        'effectively_once.operations',
        'effectively_once.relay.parked_events',
        'messaging.process.duration',
      ]),
    )
    for (const exported of [text, JSON.stringify(spans), JSON.stringify(measured)])
      for (const mark of [KEY, SCOPE, BODY]) expect(exported).not.toContain(mark)
  })
})
