import { EnvelopeDelivery } from '../../source/envelope.ts'
import type { SqsMessage } from './client.ts'

interface Content {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export class SqsDelivery extends EnvelopeDelivery {
  /** Settles this delivery. Each delivery of a message has its own. */
  readonly receipt: string

  constructor(message: SqsMessage, of: { readonly queue: string; readonly name: string }) {
    const { Attributes: system = {}, MessageId = '' } = message
    const delivered = Number(system['ApproximateReceiveCount'] ?? 1)
    super(
      { ...contentOf(message), place: `${of.queue}:${MessageId}`, source: of.name },
      { delivered, redelivered: delivered > 1, aggregate: system['MessageGroupId'] },
    )
    this.receipt = message.ReceiptHandle ?? ''
  }
}

/** The event's own body and headers, out of the envelope of SNS if there is one. */
function contentOf({ Body = '', MessageAttributes = {} }: SqsMessage): Content {
  const headers: Record<string, string> = {}
  for (const [name, { StringValue }] of Object.entries(MessageAttributes)) {
    if (StringValue !== undefined) headers[name.toLowerCase()] = StringValue
  }
  return unwrapped(Body) ?? { body: Body, headers }
}

interface Notification {
  readonly Type?: unknown
  readonly TopicArn?: unknown
  readonly Message?: unknown
  readonly MessageAttributes?: Readonly<Record<string, { readonly Value?: unknown } | null>> | null
}

/** Without raw message delivery, SNS puts the message and its attributes into a document of its own. */
function unwrapped(body: string): Content | undefined {
  // A quick look first: most messages are not from SNS.
  if (!body.includes('"TopicArn"')) return undefined
  let document: Notification | null
  try {
    document = JSON.parse(body) as Notification | null
  } catch {
    return undefined
  }
  const { Type, TopicArn, Message, MessageAttributes } = document ?? {}
  if (Type !== 'Notification' || typeof TopicArn !== 'string' || typeof Message !== 'string') return undefined
  const headers: Record<string, string> = {}
  // Anybody may send such a document, so its attributes may be null.
  for (const [name, attribute] of Object.entries(MessageAttributes ?? {})) {
    if (typeof attribute?.Value === 'string') headers[name.toLowerCase()] = attribute.Value
  }
  return { body: Message, headers }
}
