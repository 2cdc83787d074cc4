/** The parts of `@opentelemetry/api` that are used, by their shape. */

export type OtelAttributes = Record<string, string | number | boolean>

export interface OtelSpanContext {
  traceId: string
  spanId: string
  traceFlags: number
  isRemote?: boolean
  traceState?: OtelTraceState
}

export interface OtelTraceState {
  set(key: string, value: string): OtelTraceState
  unset(key: string): OtelTraceState
  get(key: string): string | undefined
  serialize(): string
}

export interface OtelSpan {
  spanContext(): OtelSpanContext
  setAttributes(attributes: OtelAttributes): unknown
  setStatus(status: { code: number }): unknown
  end(): void
  isRecording(): boolean
}

/** A context is only passed on. */
// oxlint-disable-next-line no-explicit-any -- the API's own type, which differs between its versions
export type OtelContext = any

export interface OtelTracer {
  startSpan(name: string, options: { kind: number; attributes: OtelAttributes }, context: OtelContext): OtelSpan
}

/** The namespace of `import * as api from '@opentelemetry/api'`. */
export interface OtelApi {
  readonly ROOT_CONTEXT: OtelContext
  readonly context: {
    active(): OtelContext
    with(context: OtelContext, work: () => unknown): unknown
  }
  readonly trace: {
    getTracer(name: string): OtelTracer
    getSpanContext(context: OtelContext): OtelSpanContext | undefined
    // oxlint-disable-next-line no-explicit-any -- a span of the API, which it gave us
    setSpan(context: OtelContext, span: any): OtelContext
    setSpanContext(context: OtelContext, of: OtelSpanContext): OtelContext
    isSpanContextValid(of: OtelSpanContext): boolean
  }
  createTraceState(text: string): OtelTraceState
}

export interface OtelAdder {
  add(value: number, attributes: OtelAttributes): void
}

export interface OtelRecorder {
  record(value: number, attributes: OtelAttributes): void
}

interface MetricOptions {
  unit: string
  description: string
  advice?: { explicitBucketBoundaries: number[] }
}

export interface OtelBatchResult {
  // oxlint-disable-next-line no-explicit-any -- a gauge that the same meter made
  observe(gauge: any, value: number, attributes: OtelAttributes): void
}

export interface OtelMeter {
  createCounter(name: string, options: MetricOptions): OtelAdder
  createUpDownCounter(name: string, options: MetricOptions): OtelAdder
  createHistogram(name: string, options: MetricOptions): OtelRecorder
  createObservableGauge(name: string, options: MetricOptions): unknown
  // oxlint-disable-next-line no-explicit-any -- gauges that the same meter made
  addBatchObservableCallback(callback: (result: OtelBatchResult) => Promise<void>, gauges: any[]): void
  // oxlint-disable-next-line no-explicit-any -- gauges that the same meter made
  removeBatchObservableCallback(callback: (result: OtelBatchResult) => Promise<void>, gauges: any[]): void
}
