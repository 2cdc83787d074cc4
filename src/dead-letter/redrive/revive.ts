import { Arrival } from '../../inbox/arrival.ts'
import { readCloudEvent } from '../../source/envelope.ts'
import type { Delivery, Source } from '../../source/source.ts'
import type { StoredLetter } from '../../store/dead-letters.ts'

type Reviving = Pick<Source<unknown>, 'revive'>

/** What a handler is given of a letter, or why it cannot be read. */
export function eventOf(
  { type, source, body, headers }: StoredLetter,
  from: Reviving | null,
): { readonly event: unknown } | { readonly problem: string } {
  const known = JSON.parse(headers) as Record<string, string>
  try {
    if (from?.revive) return { event: from.revive({ type, body, headers: known }) }
    const bytes = body.startsWith('base64:') ? Buffer.from(body.slice('base64:'.length), 'base64') : body
    const read = readCloudEvent({ body: bytes, headers: known, place: null, source })
    return { event: typeof read === 'string' ? (JSON.parse(bytes.toString()) as unknown) : read.event }
  } catch (error) {
    return { problem: `it cannot be read: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** A letter as a consumer takes a message: under the same id, with the changed copy if there is one. */
export function arrivalOf(
  letter: StoredLetter,
  of: { readonly copy: string | null; readonly from: Reviving; readonly seq: number; readonly at: number },
): Arrival {
  const read = of.copy === null ? eventOf(letter, of.from) : { event: JSON.parse(of.copy) as unknown }
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
