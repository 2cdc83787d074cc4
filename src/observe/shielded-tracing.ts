import type { Span, SpanEnd, SpanOf, SpanPart, Trace, Tracing } from './tracing.ts'

/** A tracer cannot change what happened, so a tracer that throws does not fail an operation, a call or a message. */
export function shieldedTracing(tracing: Tracing): Tracing {
  return { start: (of: SpanOf, from: Trace | undefined) => new ShieldedSpan(tried(() => tracing.start(of, from))) }
}

class ShieldedSpan implements Span {
  /** Undefined: the tracer could not start it. */
  readonly #span: Span | undefined

  constructor(span: Span | undefined) {
    this.#span = span
  }

  get isRecording(): boolean {
    return tried(() => this.#span?.isRecording) === true
  }

  get trace(): Trace | undefined {
    return tried(() => this.#span?.trace)
  }

  /** The work runs once, whatever the tracer does before or after it. */
  run<T>(work: () => T): T {
    let made: { readonly value: T } | { readonly error: unknown } | undefined
    const once = (): T | undefined => {
      try {
        made ??= { value: work() }
      } catch (error) {
        made = { error }
      }
      return 'value' in made ? made.value : undefined
    }
    tried(() => this.#span?.run(once))
    if (made === undefined) once()
    const { value, error } = made as unknown as { value: T; error?: unknown }
    if (error !== undefined) throw error
    return value
  }

  part(of: SpanPart): Span {
    return new ShieldedSpan(tried(() => this.#span?.part(of)))
  }

  end(end?: SpanEnd): void {
    tried(() => this.#span?.end(end))
  }
}

function tried<T>(call: () => T): T | undefined {
  try {
    return call()
  } catch {
    // There is nobody to report this to.
    return undefined
  }
}
