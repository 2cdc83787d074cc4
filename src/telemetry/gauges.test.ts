import * as api from '@opentelemetry/api'
import { DataPointType, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { describe, expect, it } from 'vitest'
import type { Status } from '../once/status.ts'
import { LABEL_LENGTH_MAX, LABEL_VALUES_MAX } from './limits.ts'
import { otel } from './otel.ts'
import { prometheus } from './prometheus.ts'
import type { WatchedInstance } from './read.ts'

class Reader extends MetricReader {
  async onForceFlush(): Promise<void> {}
  async onShutdown(): Promise<void> {}
}

const AGE_MS = [1_000, 9_000, 2_000]
/** Three destinations past the limit. */
const destinations = Array.from({ length: LABEL_VALUES_MAX + 3 }, (_, n) => {
  const past = n - LABEL_VALUES_MAX
  const relays = past === 1 ? 0 : 2
  return { name: `d${n}`, waiting: 7 + past, oldestMs: AGE_MS[past] ?? 0, parked: 0, retrying: 0, error: null, relays }
})

function watched(of: Partial<Status>): WatchedInstance {
  const status = {
    operations: { running: 0, abandoned: 0, unknown: 0, oldestAbandonedMs: null },
    destinations: [],
    unsent: { events: 0, oldestMs: null },
    consumers: [],
    deadLetters: { parked: 0, oldestMs: null },
    sweptAgoMs: null,
    sizes: [],
    ...of,
  } as unknown as Status
  return { ready: async () => ({ ready: true, reasons: [] }), status: async () => status }
}

/** The values of one series by the name of their metric, as an exporter gets them. */
async function collected(once: WatchedInstance, destination: string): Promise<Record<string, unknown>> {
  const reader = new Reader()
  const meter = new MeterProvider({ readers: [reader] }).getMeter('test')
  const stop = otel(api, { meter }).gauges(once)
  const { resourceMetrics, errors } = await reader.collect()
  stop()
  expect(errors).toEqual([])
  const found: Record<string, unknown> = {}
  for (const { descriptor, dataPointType, dataPoints } of resourceMetrics.scopeMetrics.flatMap(
    ({ metrics }) => metrics,
  )) {
    expect(dataPointType).toBe(DataPointType.GAUGE)
    for (const { attributes, value } of dataPoints)
      if (attributes['destination'] === destination) found[descriptor.name] = value
  }
  return found
}

describe('gauges of names past the limit', () => {
  const once = watched({ destinations })

  it('share one series of OpenTelemetry: counts are added up, and the worst age and the fewest relays count', async () => {
    expect(await collected(once, 'other')).toEqual({
      'effectively_once.relay.waiting': 7 + 8 + 9,
      'effectively_once.relay.lag': 9,
      'effectively_once.relay.parked_events': 0,
      'effectively_once.relay.retrying': 0,
      'effectively_once.relay.running': 0,
    })
    expect(await collected(once, 'd99')).toMatchObject({ 'effectively_once.relay.waiting': 6 })
  })

  it('share one series of Prometheus in the same way, at each scrape', async () => {
    const { render } = prometheus()
    await render(once)
    const text = await render(once)
    expect(text).toContain('effectively_once_relay_waiting{destination="other"} 24\n')
    expect(text).toContain('effectively_once_relay_lag_seconds{destination="other"} 9\n')
    expect(text).toContain('effectively_once_relay_running{destination="other"} 0\n')
  })

  it('share one series when their first characters are the same', async () => {
    const start = 'x'.repeat(LABEL_LENGTH_MAX)
    const two = destinations.slice(0, 2).map((one, n) => ({ ...one, name: `${start}${n}`, waiting: 5 }))
    expect(await collected(watched({ destinations: two }), start)).toMatchObject({
      'effectively_once.relay.waiting': 10,
    })
  })
})
