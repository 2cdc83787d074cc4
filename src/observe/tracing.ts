/** The trace that an event belongs to, as W3C Trace Context and Baggage define it. */
export interface Trace {
  readonly traceparent?: string | undefined
  readonly tracestate?: string | undefined
  readonly baggage?: string | undefined
  /** The id of the message whose handler published the event. CloudEvents' correlation extension has this name. */
  readonly causationid?: string | undefined
}

/** A part of an operation or of a message. */
export type SpanPart =
  | { readonly kind: 'claim' | 'handler' | 'commit' }
  | { readonly kind: 'step'; readonly step: string }
  /** `event`: the id of the event. */
  | { readonly kind: 'publish'; readonly type: string; readonly event: string }

/** What a span is about. No span holds a key, a scope or a body. `id` is the first part of the hashed identity. */
export type SpanOf =
  | { readonly kind: 'operation'; readonly route: string; readonly id: string; readonly store: string }
  | {
      readonly kind: 'send'
      readonly destination: string
      readonly system: string | undefined
      readonly type: string
      readonly event: string
      readonly attempt: number
      /** The number of events in the same call of the sink. */
      readonly batch: number
    }
  | {
      readonly kind: 'consume'
      readonly consumer: string
      readonly source: string
      readonly system: string | undefined
      readonly store: string
      readonly type: string
      readonly id: string
      /** The number of messages in the same transaction. */
      readonly batch: number
    }

export interface SpanEnd {
  /** The result, in one word. */
  readonly outcome?: string
  readonly error?: unknown
}

export interface Span {
  /** False: the span is not exported, so its parts need no spans. */
  readonly isRecording: boolean
  /** The trace that events of this span carry. Undefined: the span belongs to no trace. */
  readonly trace: Trace | undefined
  /** Runs the work while this span is the active one. */
  run<T>(work: () => T): T
  part(of: SpanPart): Span
  end(end?: SpanEnd): void
}

/** The interface to a tracer. `effectively-once/otel` implements it. It must not throw. */
export interface Tracing {
  /** An operation belongs to the active span, or else to `from`. Messages belong to `from` alone. */
  start(of: SpanOf, from: Trace | undefined): Span
}

/** Runs a part in its own span. Without a recording span, the part runs without one. */
export function inSpan<T>(span: Span | undefined, of: SpanPart, work: () => Promise<T>): Promise<T> {
  return span?.isRecording ? ended(span.part(of), work) : work()
}

/** Runs the work in a span, and ends the span with the work. */
export async function ended<T>(span: Span, work: () => Promise<T>, outcomeOf?: (made: T) => string): Promise<T> {
  try {
    const made = await span.run(work)
    span.end(outcomeOf ? { outcome: outcomeOf(made) } : undefined)
    return made
  } catch (error) {
    span.end({ error })
    throw error
  }
}

/** Whether the sender of this context records its spans. */
export function isSampled(traceparent: string | undefined): boolean {
  return traceparent !== undefined && (Number.parseInt(traceparent.slice(-2), 16) & 1) === 1
}
