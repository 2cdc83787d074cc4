import * as api from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  SimpleSpanProcessor,
  TraceIdRatioBasedSampler,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base'

/** A real SDK that keeps what it exports. One for each process, because the API's context is global. */
export function collectSpans(ratio = 1): {
  readonly tracer: api.Tracer
  spans(): readonly ReadableSpan[]
  stop(): void
} {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  })
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return {
    tracer: provider.getTracer('test'),
    spans: () => exporter.getFinishedSpans(),
    stop: () => api.context.disable(),
  }
}

/** `name < parent`, sorted, for all spans of one trace. */
export function treeOf(spans: readonly ReadableSpan[]): string[] {
  const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]))
  return spans
    .map(({ name, parentSpanContext }) => `${name} < ${names.get(parentSpanContext?.spanId ?? '') ?? 'root'}`)
    .toSorted()
}
