import { Arrival, type ArrivalOptions } from './inbox/arrival.ts'
import { describeError } from '../platform/describe-error.ts'
import { unspell } from '../platform/storable.ts'
import { bodyOfText } from '../source/body-text.ts'
import { bytesOf, isBase64, readCloudEvent } from '../source/envelope.ts'
import type { Delivery, Source } from '../source/source.ts'
import type { StoredLetter } from '../store/dead-letters.ts'
import { jsonIn } from '../platform/stored-json.ts'

type Reviving = Pick<Source<unknown>, 'revive'>

/**
 * The event that a handler gets for a letter, or why it cannot be read. `copy` is the changed event, or the changed
 * JSON of a body that is not a CloudEvent.
 */
export function eventOf(
  letter: StoredLetter,
  from: Reviving | null,
  copy: string | null = null,
): { readonly event: unknown } | { readonly problem: string } {
  const { message: id, source, type, body } = letter
  try {
    const headers = headersOf(letter)
    const came = bodyOfText(body)
    const read = readCloudEvent({ body: came, headers, place: null, source })
    if (typeof read !== 'string') return { event: copy === null ? read.event : readCopy(copy) }
    const text = copy ?? came.toString()
    return {
      event: from?.revive ? from.revive({ id, source, type, body: text, headers }) : (JSON.parse(text) as unknown),
    }
  } catch (error) {
    return { problem: `the message cannot be read: ${describeError(error).line}` }
  }
}

/** A changed event as JSON text; bytes in base64, as CloudEvents has them. */
export function writeCopy(event: unknown): string {
  const { data, ...others } = (event ?? {}) as { readonly data?: unknown }
  if (!(data instanceof Uint8Array)) return JSON.stringify(event)
  return JSON.stringify({ ...others, data_base64: Buffer.from(data).toString('base64') })
}

function readCopy(copy: string): unknown {
  const event = JSON.parse(copy) as { data_base64?: unknown }
  if (!isBase64(event.data_base64)) return event
  const { data_base64: base64, ...others } = event
  return { ...others, data: bytesOf(base64) }
}

/** Turns a letter back into a message, under the same id, with the changed copy if there is one. */
export function arrivalOf(
  letter: StoredLetter,
  of: Pick<ArrivalOptions, 'consumer' | 'seq' | 'at'> & { readonly copy: string | null; readonly from: Reviving },
): Arrival {
  const read = eventOf(letter, of.from, of.copy)
  const problem = 'problem' in read ? read.problem : undefined
  let event = 'event' in read ? read.event : undefined
  const { source, message, aggregate, body, tenant, traceparent } = letter
  const delivery: Delivery = {
    id: message,
    source,
    type: typeOf(event) ?? letter.type,
    aggregate,
    previous: null,
    get event() {
      event ??= (eventOf(letter, of.from, of.copy) as { readonly event?: unknown }).event
      return event
    },
    renew() {
      event = undefined
    },
    body,
    headers: headersOf(letter),
    delivered: undefined,
    redelivered: true,
    tenant: tenant ?? undefined,
    traceparent: traceparent ?? undefined,
    problem,
  }
  const arrival = new Arrival({ delivery, consumer: of.consumer, message, problem, seq: of.seq, at: of.at })
  // Only the hash of its predecessor is known.
  return Object.assign(arrival, {
    item: { ...arrival.item, previous: letter.previous },
    attempts: letter.attempts,
  })
}

function headersOf({ headers }: StoredLetter): Record<string, string> {
  const spelled = jsonIn<Record<string, unknown>>(headers, {})
  return Object.fromEntries(Object.entries(spelled).map(([name, value]) => [unspell(name), unspell(String(value))]))
}

function typeOf(event: unknown): string | undefined {
  const type = (event as { type?: unknown } | null | undefined)?.type
  return typeof type === 'string' && type !== '' ? type : undefined
}
