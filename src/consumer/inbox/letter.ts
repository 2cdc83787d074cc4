import { isStorable, jsonWith, spell, storable } from '../../platform/storable.ts'
import { bodyText } from '../../source/body-text.ts'
import type { Delivery } from '../../source/source.ts'
import type { Letter, LetterReason, NewLetter } from '../../store/dead-letters.ts'
import type { Arrival } from './arrival.ts'
import { describeError } from '../../platform/describe-error.ts'

/** Returns the part of a message's body that a person may see. */
export type Mask = (body: string, message: { readonly type: string; readonly source: string }) => string

/** Turns a message into a dead letter. Any message can be stored in every database, and read back. */
export function letterOf(
  arrival: Arrival,
  why: { readonly state: Letter['state']; readonly reason: LetterReason; readonly error: unknown },
  mask: Mask | undefined,
): NewLetter {
  const { delivery, item } = arrival
  const { line, fingerprint, causes } = describeError(why.error)
  const { type, source, tenant, traceparent } = delivery
  const body = bodyOf(delivery)
  return {
    id: item.id,
    lock: item.lock,
    source: item.source,
    message: item.message,
    type: storable(type),
    aggregate: item.aggregate,
    previous: item.previous,
    tenant: tenant === undefined ? null : storable(tenant),
    state: why.state,
    reason: why.reason,
    error: line,
    fingerprint,
    causes,
    body,
    shown: mask ? masked(mask, body, { type, source }) : null,
    headers: jsonWith(spell, textsIn(delivery.headers)),
    traceparent: traceparent === undefined ? null : storable(traceparent),
    attempts: arrival.attempts,
  }
}

/** If `mask` fails, nothing of the body is shown. */
function masked(mask: Mask, body: string, message: { type: string; source: string }): string {
  try {
    return spell(mask(body, message))
  } catch {
    return '(masked)'
  }
}

/** The body, or an empty text if the source cannot return it. */
function bodyOf(delivery: Delivery): string {
  try {
    const { body } = delivery
    return isStorable(body) ? body : bodyText(body)
  } catch {
    return ''
  }
}

function textsIn(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
