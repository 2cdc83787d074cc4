import { invalid } from '../options.ts'
import type { Observe } from '../observe/signal.ts'
import type { Tracing } from '../observe/tracing.ts'
import { count, type Add } from './count.ts'
import { READ, type Instrument } from './instruments.ts'
import { LabelBounds } from './labels.ts'
import type { OtelAdder, OtelApi, OtelBatchResult, OtelMeter, OtelRecorder, OtelTracer } from './otel-api.ts'
import { OtelTracing } from './otel-tracing.ts'
import { readGauges, type WatchedInstance } from './read.ts'

export interface OtelOptions {
  /** Default: `api.trace.getTracer('effectively-once')` */
  tracer?: OtelTracer
  /** Such as `api.metrics.getMeter('effectively-once')`. Without a meter, there are no metrics. */
  meter?: OtelMeter
}

export interface Otel {
  /** For `effectivelyOnce({ tracing })`. */
  readonly tracing: Tracing
  /** For `effectivelyOnce({ observe })`. Without a meter it does nothing. */
  readonly observe: Observe
  /** Adds gauges of the database, which are read at each collection. Returns a function that removes them. */
  gauges(once: WatchedInstance): () => void
}

/**
 * Spans and metrics for OpenTelemetry. `api` is the namespace of `@opentelemetry/api`.
 *
 * @example
 * const { tracing, observe } = otel(api, { meter: api.metrics.getMeter('effectively-once') })
 * const once = effectivelyOnce({ namespace: 'payments', store, tracing, observe })
 */
export function otel(api: OtelApi, options: OtelOptions = {}): Otel {
  if (typeof api?.context?.active !== 'function' || typeof api.trace?.getTracer !== 'function')
    throw invalid('otel() needs the namespace of @opentelemetry/api')
  const bounds = new LabelBounds()
  const { tracer = api.trace.getTracer('effectively-once'), meter } = options
  return {
    tracing: new OtelTracing(api, tracer, bounds),
    observe: meter ? counting(meter, bounds) : () => {},
    gauges: (once) => (meter ? reading(meter, bounds, once) : () => {}),
  }
}

function counting(meter: OtelMeter, bounds: LabelBounds): Observe {
  const made = new Map<Instrument, OtelAdder | OtelRecorder>()
  const add: Add = (instrument, value, labels) => {
    let metric = made.get(instrument)
    if (!metric) made.set(instrument, (metric = metricOf(meter, instrument)))
    const { labels: attributes } = bounds.series(instrument.name, labels)
    if ('add' in metric) metric.add(value, attributes)
    else metric.record(value, attributes)
  }
  return (signal) => count(signal, add)
}

function optionsOf({ unit, help }: Instrument): { unit: string; description: string } {
  return { unit, description: help }
}

function metricOf(meter: OtelMeter, instrument: Instrument): OtelAdder | OtelRecorder {
  const { name, kind, buckets = [] } = instrument
  const options = optionsOf(instrument)
  if (kind === 'counter') return meter.createCounter(name, options)
  if (kind === 'updown') return meter.createUpDownCounter(name, options)
  return meter.createHistogram(name, { ...options, advice: { explicitBucketBoundaries: [...buckets] } })
}

function reading(meter: OtelMeter, bounds: LabelBounds, once: WatchedInstance): () => void {
  const instruments: readonly Instrument[] = Object.values(READ)
  const gauges = new Map(instruments.map((one) => [one, meter.createObservableGauge(one.name, optionsOf(one))]))
  const callback = async (result: OtelBatchResult): Promise<void> => {
    for (const { instrument, value, labels } of await readGauges(once, bounds))
      result.observe(gauges.get(instrument), value, labels)
  }
  const all = [...gauges.values()]
  meter.addBatchObservableCallback(callback, all)
  return () => meter.removeBatchObservableCallback(callback, all)
}
