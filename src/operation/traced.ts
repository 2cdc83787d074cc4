import { shortId } from '../observe/signal.ts'
import { ended, type Tracing } from '../observe/tracing.ts'
import type { Core } from './core.ts'
import type { Outcome } from './outcome.ts'
import type { Request } from './request.ts'

/** Runs an operation in a span of its own. Its parts and its events find the span. */
export function traced<Tx>(
  core: Core<Tx>,
  tracing: Tracing,
  request: Request,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { route, claim } = request
  const about = { kind: 'operation', route, id: shortId(claim.id), store: core.store.name } as const
  const span = tracing.start(about, request.trace)
  // The request belongs to this call alone. A copy would cost more than the span.
  request.span = span
  request.trace = span.trace ?? request.trace
  return ended(span, run, ({ replayed }) => (replayed ? 'replayed' : 'ran'))
}
