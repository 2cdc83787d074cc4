import { isSampled, type Span, type Tracing } from '../observe/tracing.ts'
import type { Sink } from '../sink/sink.ts'
import type { Item } from './item.ts'

/** One span for each event of a call whose publisher recorded its trace. Other events cost nothing. */
export function sendSpans(tracing: Tracing, { name, system }: Sink, items: readonly Item[]): Map<Item, Span> {
  const spans = new Map<Item, Span>()
  for (const item of items) {
    const { traceparent, headers, type, id, attempt } = item.event
    if (!isSampled(traceparent)) continue
    const about = { kind: 'send', destination: name, system, type, event: id, attempt, batch: items.length } as const
    spans.set(item, tracing.start(about, { traceparent, tracestate: headers['tracestate'] }))
  }
  return spans
}
