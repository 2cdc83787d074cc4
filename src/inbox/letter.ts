import type { Letter, LetterReason, NewLetter } from '../store/dead-letters.ts'
import type { Arrival } from './arrival.ts'
import { describeError } from './describe-error.ts'

/** What a person may see of a message's body. */
export type Mask = (body: string, message: { readonly type: string; readonly source: string }) => string

/** A message as a dead letter. */
export function letterOf(
  arrival: Arrival,
  why: { readonly state: Letter['state']; readonly reason: LetterReason; readonly error: unknown },
  mask: Mask | undefined,
): NewLetter {
  const { delivery, item } = arrival
  const { line, fingerprint, causes } = describeError(why.error)
  const { type, source, tenant, traceparent } = delivery
  const body = clean(delivery.body)
  return {
    id: item.id,
    lock: item.lock,
    source: item.source,
    message: item.message,
    type,
    aggregate: item.aggregate,
    previous: item.previous,
    tenant: tenant ?? null,
    state: why.state,
    reason: why.reason,
    error: line,
    fingerprint,
    causes,
    body,
    shown: mask ? masked(mask, body, { type, source }) : null,
    headers: clean(JSON.stringify(delivery.headers)).replaceAll('\\u0000', ''),
    traceparent: traceparent ?? null,
    attempts: arrival.attempts,
  }
}

/** A hook that fails shows nothing at all. */
function masked(mask: Mask, body: string, message: { type: string; source: string }): string {
  try {
    return clean(mask(body, message))
  } catch {
    return '(masked)'
  }
}

function clean(text: string): string {
  return text.replaceAll('\0', '')
}
