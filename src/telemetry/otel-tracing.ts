import type { Span, SpanEnd, SpanOf, SpanPart, Trace, Tracing } from '../observe/tracing.ts'
import { errorType, type LabelBounds } from './labels.ts'
import type { OtelApi, OtelContext, OtelSpan, OtelSpanContext, OtelTracer } from './otel-api.ts'
import { describe } from './otel-spans.ts'

/** The API's `SpanStatusCode.ERROR`. */
const ERROR = 2

/** Spans of OpenTelemetry. The API promises not to throw, but samplers and processors of users may. */
export class OtelTracing implements Tracing {
  readonly api: OtelApi
  readonly #tracer: OtelTracer
  readonly #bounds: LabelBounds

  constructor(api: OtelApi, tracer: OtelTracer, bounds: LabelBounds) {
    this.api = api
    this.#tracer = tracer
    this.#bounds = bounds
  }

  start(of: SpanOf, from: Trace | undefined): Span {
    const store = 'store' in of ? of.store : ''
    const base = of.kind === 'operation' ? this.api.context.active() : this.api.ROOT_CONTEXT
    const active = this.#contextIn(base)
    if (active) return isSampled(active) ? this.open(of, store, base) : new PassedSpan(traceOf(active))
    const remote = this.#remote(from)
    if (!remote) return this.open(of, store, base)
    const context = this.api.trace.setSpanContext(base, remote)
    return isSampled(remote) ? this.open(of, store, context) : new PassedSpan(from, this.api, context)
  }

  open(of: SpanOf | SpanPart, store: string, parent: OtelContext): Span {
    try {
      const { name, kind, attributes } = describe(of, store, this.#bounds)
      const span = this.#tracer.startSpan(name, { kind, attributes }, parent)
      return new TracedSpan(this, store, span, this.api.trace.setSpan(parent, span))
    } catch {
      return NO_SPAN
    }
  }

  /** The active context, if it is in the same trace, such as a span of the user inside the handler. */
  within(own: OtelContext, traceId: string): OtelContext {
    const active = this.api.context.active()
    return this.#contextIn(active)?.traceId === traceId ? active : own
  }

  errorType(error: unknown): string {
    return this.#bounds.value('error.type', errorType(error))
  }

  #contextIn(context: OtelContext): OtelSpanContext | undefined {
    const found = this.api.trace.getSpanContext(context)
    return found && this.api.trace.isSpanContextValid(found) ? found : undefined
  }

  /** Reads W3C Trace Context itself, because the propagator of the application may use other headers. */
  #remote(from: Trace | undefined): OtelSpanContext | undefined {
    if (from?.traceparent === undefined) return undefined
    const [, traceId, spanId, flags] = TRACEPARENT.exec(from.traceparent) ?? []
    if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
    const traceFlags = Number.parseInt(flags, 16)
    const state = from.tracestate === undefined ? {} : { traceState: this.api.createTraceState(from.tracestate) }
    return { traceId, spanId, traceFlags, isRemote: true, ...state }
  }
}

function isSampled({ traceFlags }: OtelSpanContext): boolean {
  return (traceFlags & 1) === 1
}

function traceOf({ traceId, spanId, traceFlags, traceState }: OtelSpanContext): Trace {
  const flags = traceFlags.toString(16).padStart(2, '0')
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: traceState?.serialize() || undefined }
}

const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})$/

class TracedSpan implements Span {
  readonly isRecording: boolean
  readonly #tracing: OtelTracing
  readonly #store: string
  readonly #span: OtelSpan
  readonly #context: OtelContext

  constructor(tracing: OtelTracing, store: string, span: OtelSpan, context: OtelContext) {
    this.#tracing = tracing
    this.#store = store
    this.#span = span
    this.#context = context
    this.isRecording = span.isRecording()
  }

  get trace(): Trace | undefined {
    const of = this.#span.spanContext()
    return this.#tracing.api.trace.isSpanContextValid(of) ? traceOf(of) : undefined
  }

  run<T>(work: () => T): T {
    return this.#tracing.api.context.with(this.#context, work) as T
  }

  part(of: SpanPart): Span {
    const { traceId } = this.#span.spanContext()
    return this.#tracing.open(of, this.#store, this.#tracing.within(this.#context, traceId))
  }

  end({ outcome, error }: SpanEnd = {}): void {
    try {
      if (this.isRecording && outcome !== undefined) this.#span.setAttributes({ 'effectively_once.outcome': outcome })
      if (this.isRecording && error !== undefined) {
        // Without the error's text, which may quote a key or a body.
        this.#span.setAttributes({ 'error.type': this.#tracing.errorType(error) })
        this.#span.setStatus({ code: ERROR })
      }
      this.#span.end()
    } catch {
      // A span that cannot be exported does not fail the operation.
    }
  }
}

/**
 * Stands for a parent that is not sampled. Nothing below it is exported, so it costs no span of its own. Events and
 * handlers get the parent's trace.
 */
class PassedSpan implements Span {
  readonly isRecording: boolean = false
  readonly trace: Trace | undefined
  readonly #api: OtelApi | undefined
  readonly #context: OtelContext

  /** Without a context, the parent is the active span. */
  constructor(trace: Trace | undefined, api?: OtelApi, context?: OtelContext) {
    this.trace = trace
    this.#api = api
    this.#context = context
  }

  run<T>(work: () => T): T {
    return this.#api ? (this.#api.context.with(this.#context, work) as T) : work()
  }

  part(): Span {
    return this
  }

  end(): void {}
}

const NO_SPAN: Span = new PassedSpan(undefined)
