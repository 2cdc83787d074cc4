import { invalid } from '../options.ts'
import { SENT, type OutgoingEvent, type Sink, type Verdict } from './sink.ts'

/**
 * Hands events to a function of this process, one after the other. An event counts as sent when the function resolves.
 * If the function throws, the event has failed. The function is called at least once per event: deduplicate by
 * `event.id`.
 *
 * @example
 * await once.relay({ to: inProcessSink(async (event) => mail(event.data)) }).start()
 */
export function inProcessSink(
  handler: (event: OutgoingEvent, options: { readonly signal: AbortSignal }) => unknown,
  options: { name?: string } = {},
): Sink {
  if (typeof handler !== 'function') {
    throw invalid('inProcessSink() needs a function')
  }
  return {
    name: options?.name ?? 'in-process',
    proves: 'handled',
    dedupes: false,
    orders: true,
    async send(events, given) {
      const verdicts: Verdict[] = []
      const failed = new Map<string, Verdict>()
      for (const [index, event] of events.entries()) {
        if (given.mayBegin?.() === false) break
        // An event behind a failed one must not overtake it.
        let verdict = failed.get(event.aggregate.id)
        if (!verdict) {
          try {
            // The relay has given up this call, and another relay sends the event.
            given.signal.throwIfAborted()
            await handler(event, { signal: given.signal })
            verdict = SENT
          } catch (error) {
            verdict = { kind: 'failed', error, retryable: true }
            failed.set(event.aggregate.id, verdict)
          }
        }
        verdicts.push(verdict)
        given.told?.(index, verdict)
      }
      return verdicts
    },
  }
}
