import type { RabbitmqChannel, RabbitmqMessage } from './client.ts'
import { EnvelopeDelivery } from '../../source/envelope.ts'

/** Counts the deliveries of earlier copies. An event that is returned goes to the end of the queue as a copy. */
export const DELIVERED_BEFORE = 'x-once-delivered'
/** The count of a quorum queue. */
const DELIVERY_COUNT = 'x-delivery-count'

export class RabbitmqDelivery extends EnvelopeDelivery {
  readonly message: RabbitmqMessage
  /** The delivery can be settled only on this channel. */
  readonly channel: RabbitmqChannel

  constructor(message: RabbitmqMessage, channel: RabbitmqChannel, source: string, again = false) {
    const before = numberIn(message, DELIVERED_BEFORE)
    super(
      { body: bodyOf(message), headers: textsOf(message), place: null, source },
      {
        delivered: before + deliveriesOf(message),
        redelivered: message.redelivered || before > 0 || again,
      },
    )
    this.message = message
    this.channel = channel
  }
}

/** How often this copy was delivered, including this delivery. A classic queue reports only whether it is the first. */
function deliveriesOf(message: RabbitmqMessage): number {
  return 1 + (numberIn(message, DELIVERY_COUNT) || (message.redelivered ? 1 : 0))
}

/** The headers of the copy that goes to the end of the queue. */
export function copiedHeaders(delivery: RabbitmqDelivery): Record<string, unknown> {
  const { [DELIVERY_COUNT]: _, ...headers } = delivery.message.headers ?? {}
  return { ...headers, [DELIVERED_BEFORE]: delivery.delivered ?? 1 }
}

/**
 * The client parses bodies of text and JSON types. If the type is JSON and the client returned a string, the body was a
 * JSON string in quotes.
 */
export function bodyOf({ body, contentType }: RabbitmqMessage): string | Uint8Array {
  if (body instanceof Uint8Array || (typeof body === 'string' && contentType !== JSON_TYPE)) return body
  return JSON.stringify(body)
}

const JSON_TYPE = 'application/json'

function textsOf({ headers = {}, messageId, contentType }: RabbitmqMessage): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (['string', 'number', 'boolean'].includes(typeof value)) texts[name.toLowerCase()] = String(value)
  }
  if (messageId !== undefined) texts['message-id'] = messageId
  if (contentType !== undefined) texts['content-type'] = contentType
  return texts
}

function numberIn({ headers }: RabbitmqMessage, name: string): number {
  const value = Number(headers?.[name] ?? 0)
  return Number.isFinite(value) && value > 0 ? value : 0
}
