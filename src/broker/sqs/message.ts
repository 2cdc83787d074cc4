import { sha256Hex } from '../../platform/sha256.ts'
import { cloudEventJson, traceHeaders, type OutgoingEvent } from '../../sink/sink.ts'
import { isFifo } from './client.ts'

/** One event as an entry of a request, without the entry's number and its text. */
export interface AwsMessage {
  readonly body: string
  readonly parts: {
    readonly MessageAttributes: Record<string, { DataType: 'String'; StringValue: string }>
    readonly MessageGroupId?: string
    readonly MessageDeduplicationId?: string
  }
  /** As SQS counts them: the body, and name, type and value of each attribute. */
  readonly bytes: number
}

/**
 * The whole event is the body, because a message has at most ten attributes. The attributes repeat what filters and
 * tracers look for.
 */
export function messageOf(event: OutgoingEvent, place: string): AwsMessage {
  const body = cloudEventJson(event).replace(/[\ufffe\uffff]/g, escaped)
  const texts = {
    'content-type': 'application/cloudevents+json',
    'event-id': event.id,
    'event-type': event.type,
    'broker-id': event.brokerId,
    ...traceHeaders(event),
  }
  const MessageAttributes: AwsMessage['parts']['MessageAttributes'] = {}
  let bytes = Buffer.byteLength(body)
  for (const [name, StringValue] of Object.entries(texts)) {
    if (!/^[\x20-\x7e]+$/.test(StringValue)) continue
    MessageAttributes[name] = { DataType: 'String', StringValue }
    bytes += name.length + 'String'.length + StringValue.length
  }
  if (!isFifo(place)) return { body, parts: { MessageAttributes }, bytes }
  const MessageGroupId = idOf(event.aggregate.id)
  const MessageDeduplicationId = idOf(event.deduplicationId)
  return { body, parts: { MessageAttributes, MessageGroupId, MessageDeduplicationId }, bytes }
}

/** Two characters that SQS refuses. JSON has them only inside strings, where their escape means the same. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16)}`
}

/** SQS takes ids of at most 128 letters, digits and punctuation marks. */
function idOf(text: string): string {
  return /^[!-~]{1,128}$/.test(text) ? text : sha256Hex(text)
}
