import { isStorable, jsonWith, spell, storable } from '../../platform/storable.ts'
import { bodyText } from '../../source/body-text.ts'
import type { Delivery } from '../../source/source.ts'
import type { Letter, LetterReason, NewLetter } from '../../store/dead-letters.ts'
import type { Arrival } from './arrival.ts'
import { describeError } from '../../platform/describe-error.ts'

/** What a person may see of a message's body. */
export type Mask = (body: string, message: { readonly type: string; readonly source: string }) => string

/** A message as a dead letter. Whatever it holds, every database can hold the letter, and it can be read back. */
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

/** A hook that fails shows nothing at all. */
function masked(mask: Mask, body: string, message: { type: string; source: string }): string {
  try {
    return spell(mask(body, message))
  } catch {
    return '(masked)'
  }
}

/** Read when it is first asked for: a source may fail at that. */
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
