import type { Duration } from '../duration.ts'
import { invalid } from '../options.ts'
import type { Events } from '../outbox/event.ts'
import { secretBytes } from '../sink/webhook-signature.ts'
import { EnvelopeDelivery } from './envelope.ts'
import { pushedDelivery } from './pushed-delivery.ts'
import { checkSecrets, isFresh, isId, jsonObject, refused, signedBy, toleranceOf, type Secrets } from './signature.ts'
import type { EventsOf, Pushed, PushedRequest, PushedSource, ReceivedEvent } from './source.ts'

export interface StandardWebhooksOptions<E extends Events> {
  /** `whsec_` and base64, or any text. Pass several while you rotate the secret. */
  secret: Secrets
  /**
   * The sender. Two events are the same only if their senders are the same. Default 'webhook'. A CloudEvent names its
   * own source.
   */
  source?: string
  /** The sender's catalogue. It types the handlers. */
  events?: E
  /** How old a signature may be, and how far ahead. Default '5m' */
  tolerance?: Duration
  /** How late the sender may send an event again. Default '30d' */
  redeliversFor?: Duration
}

/**
 * Webhooks that are signed according to Standard Webhooks, such as those of our own `webhookSink`. A CloudEvent is
 * identified by its own id, any other event by `webhook-id`.
 */
export function standardWebhooksSource<E extends Events = {}>(
  options: StandardWebhooksOptions<E>,
): PushedSource<EventsOf<E>> {
  const secrets = checkSecrets(options?.secret, 'standardWebhooksSource()').map(secretBytes)
  const toleranceMs = toleranceOf(options.tolerance)
  const { source = 'webhook', redeliversFor = '30d' } = options
  if (!isId(source)) throw invalid('source must be a string of 1 to 255 characters')
  return {
    kind: 'pushed',
    name: source,
    types: Object.keys(options.events ?? {}),
    events: options.events ?? {},
    redeliversFor,
    revive: ({ body, ...of }) => eventIn(JSON.parse(body) as Record<string, unknown>, of),
    receive(request) {
      const { headers, body, now } = request
      const id = headers['webhook-id'] ?? ''
      const timestamp = headers['webhook-timestamp'] ?? ''
      const signatures = (headers['webhook-signature'] ?? '').split(' ').flatMap((part) => {
        const [version, value] = part.split(',', 2)
        return version === 'v1' && value ? [Buffer.from(value, 'base64')] : []
      })
      if (!signedBy(secrets, signatures, `${id}.${timestamp}.`, body)) {
        return refused('ONCE_SIGNATURE_INVALID', 'webhook-signature is missing or does not match the body')
      }
      if (!isFresh(timestamp, now, toleranceMs)) {
        return refused('ONCE_TIMESTAMP_STALE', 'webhook-timestamp is too far from now')
      }
      return isId(id) ? read(request, id, source) : refused('ONCE_BODY_INVALID', 'webhook-id is missing')
    },
  }
}

function read({ headers, body }: PushedRequest, id: string, source: string): Pushed {
  const document = jsonObject(body)
  if (document && isId(document['specversion'])) {
    const { traceparent } = headers
    const message = { body, headers: { traceparent }, place: id, source }
    const delivery = new EnvelopeDelivery(message, { redelivered: false })
    if (delivery.problem === undefined) return { kind: 'delivery', delivery }
    return refused('ONCE_BODY_INVALID', delivery.problem)
  }
  const { type } = document ?? {}
  if (!document || !isId(type)) return refused('ONCE_BODY_INVALID', 'the body has no type')
  const { traceparent } = headers
  const event = { ...eventIn(document, { id, source, type }), traceparent }
  return { kind: 'delivery', delivery: pushedDelivery({ id, source, type, event, body, traceparent }) }
}

/** Reads a body of the form that Standard Webhooks recommends: type, timestamp, data. */
function eventIn(
  { data, timestamp }: Readonly<Record<string, unknown>>,
  { id, source, type }: { readonly id: string; readonly source: string; readonly type: string },
): ReceivedEvent {
  const time = typeof timestamp === 'string' ? timestamp : undefined
  return { id, source, type, subject: undefined, time, data, traceparent: undefined, headers: {} }
}
