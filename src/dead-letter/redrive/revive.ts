import { Arrival } from '../../inbox/arrival.ts'
import { readCloudEvent } from '../../source/envelope.ts'
import type { Delivery, Source } from '../../source/source.ts'
import type { StoredLetter } from '../../store/dead-letters.ts'

type Reviving = Pick<Source<unknown>, 'revive'>

/**
 * What a handler is given of a letter, or why it cannot be read. `copy`: the changed event, or the changed JSON of a body
 * that is no CloudEvent.
 */
export function eventOf(
  letter: StoredLetter,
  from: Reviving | null,
  copy: string | null = null,
): { readonly event: unknown } | { readonly problem: string } {
  const { message: id, source, type, body } = letter
  try {
    const headers = JSON.parse(letter.headers) as Record<string, string>
    const bytes = body.startsWith('base64:') ? Buffer.from(body.slice('base64:'.length), 'base64') : body
    const read = readCloudEvent({ body: bytes, headers, place: null, source })
    if (typeof read !== 'string') return { event: copy === null ? read.event : (JSON.parse(copy) as unknown) }
    const text = copy ?? bytes.toString()
    return {
      event: from?.revive ? from.revive({ id, source, type, body: text, headers }) : (JSON.parse(text) as unknown),
    }
  } catch (error) {
    return { problem: `it cannot be read: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** A letter as a consumer takes a message: under the same id, with the changed copy if there is one. */
export function arrivalOf(
  letter: StoredLetter,
  of: { readonly copy: string | null; readonly from: Reviving; readonly seq: number; readonly at: number },
): Arrival {
  const read = eventOf(letter, of.from, of.copy)
  const problem = 'problem' in read ? read.problem : undefined
  const event = 'event' in read ? read.event : undefined
  const { consumer, source, message, aggregate, body, headers, tenant, traceparent } = letter
  const delivery: Delivery = {
    id: message,
    source,
    type: typeOf(event) ?? letter.type,
    aggregate,
    previous: null,
    event,
    body,
    headers: JSON.parse(headers) as Record<string, string>,
    delivered: undefined,
    redelivered: true,
    tenant: tenant ?? undefined,
    traceparent: traceparent ?? undefined,
    problem,
  }
  const arrival = new Arrival({ delivery, consumer, message, problem, seq: of.seq, at: of.at })
  // Only the hash of its predecessor is known.
  return Object.assign(arrival, {
    item: { ...arrival.item, previous: letter.previous },
    attempts: letter.attempts,
  })
}

function typeOf(event: unknown): string | undefined {
  const type = (event as { type?: unknown } | null | undefined)?.type
  return typeof type === 'string' && type !== '' ? type : undefined
}
