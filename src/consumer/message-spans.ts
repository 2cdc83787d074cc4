import type { Arrival } from './inbox/arrival.ts'
import { shortId } from '../observe/signal.ts'
import type { Span, Trace } from '../observe/tracing.ts'
import type { Fate, Fates } from './fate.ts'
import type { ConsumerParts } from './parts.ts'

/** Runs messages, each in a span of its own, if the instance has a tracer. A span tells what became of its message. */
export async function inMessageSpans<Tx>(
  { core, settings }: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  run: () => Promise<Fates>,
): Promise<Fates> {
  const { tracing } = core.settings
  if (!tracing) return run()
  const { name: consumer, from } = settings
  for (const arrival of arrivals) {
    const { delivery, item } = arrival
    const place = { consumer, source: from.name, system: from.system, store: core.store.name }
    const message = { type: delivery.type, id: shortId(item.id), batch: arrivals.length }
    arrival.span = tracing.start({ kind: 'consume', ...place, ...message }, traceOfMessage(arrival))
  }
  let fates: Fates | undefined
  try {
    return (fates = await run())
  } finally {
    for (const arrival of arrivals) {
      arrival.span?.end(endOf(fates?.get(arrival)))
      arrival.span = undefined
    }
  }
}

function endOf(fate: Fate | undefined): { readonly outcome: string; readonly error?: unknown } {
  if (!fate) return { outcome: 'troubled', error: new Error('no fate') }
  return 'error' in fate ? { outcome: fate.kind, error: fate.error } : { outcome: fate.kind }
}

/** What the events of a message's handler carry: the trace of the message, and its id as their cause. */
export function traceOf(arrival: Arrival): Trace | undefined {
  const trace = arrival.span?.trace ?? traceOfMessage(arrival)
  if (!trace) return undefined
  const { traceparent, tracestate, baggage } = trace
  return { traceparent, tracestate, baggage, causationid: arrival.delivery.id }
}

function traceOfMessage({ delivery }: Arrival): Trace | undefined {
  const { traceparent } = delivery
  return traceparent === undefined ? undefined : { traceparent, tracestate: delivery.headers['tracestate'] }
}

/** Messages that share a transaction share its claim and its commit, so only one of them shows these. */
export function recordingSpan(arrivals: readonly Arrival[]): Span | undefined {
  return arrivals.find(({ span }) => span?.isRecording)?.span
}
