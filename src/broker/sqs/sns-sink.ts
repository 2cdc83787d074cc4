import { milliseconds, type Duration } from '../../duration.ts'
import { SNS_BYTES_MAX, SQS_TIMEOUT_MS_DEFAULT, SQS_TIMEOUT_MS_MAX } from './limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { OutgoingEvent, Sink } from '../../sink/sink.ts'
import { batchSink } from './batch-sink.ts'
import { answered, isFifo, isNotFound, type SnsClient } from './client.ts'
import { nameOf } from './queue.ts'

export interface SnsSinkOptions {
  /** The ARN of the topic, or a function that returns the topic of an event. The topic must exist. */
  topic: string | ((event: OutgoingEvent) => string)
  /** Names the destination. Default: `sns` and the topic's name. Needed if `topic` is a function */
  name?: string
  /** How long one request may take. Default '10s' */
  timeout?: Duration
}

const OPTIONS = new Set(['topic', 'name', 'timeout'])

/**
 * Publishes to an SNS topic, with the same messages as `sqsSink`. Queues that subscribe to the topic get the messages.
 * `sqsSource` reads such queues, with or without raw message delivery.
 *
 * @example
 * await once.relay({ to: snsSink(new SNS(), { topic: 'arn:aws:sns:eu-central-1:123456789012:payments.fifo' }) }).start()
 */
export function snsSink(client: SnsClient, options: SnsSinkOptions): Sink {
  if (typeof client?.publishBatch !== 'function') {
    throw invalid('snsSink() needs an SNS of @aws-sdk/client-sns, not an SNSClient')
  }
  refuseUnknown(options, OPTIONS, 'snsSink()')
  const { topic } = options ?? {}
  const name = options?.name ?? (typeof topic === 'string' ? `sns ${nameOf(topic)}` : undefined)
  if (typeof topic !== 'function' && !isTopicArn(topic)) throw invalid('snsSink({ topic }) needs the ARN of a topic')
  if (name === undefined) throw invalid('snsSink() needs a name if topic is a function')
  const limits = { option: 'timeout', min: 1, max: SQS_TIMEOUT_MS_MAX }
  const timeoutMs = milliseconds(options.timeout, SQS_TIMEOUT_MS_DEFAULT, limits)
  const fifo = typeof topic === 'string' && isFifo(topic)
  let bytesMax = SNS_BYTES_MAX

  return batchSink({
    name,
    system: 'aws_sns',
    to: topic,
    check(place) {
      if (!isTopicArn(place)) throw new TypeError(`'${String(place).slice(0, 200)}' is not the ARN of a topic`)
      return place
    },
    bytesMax: () => ({ message: bytesMax, request: bytesMax }),
    // What a topic accepted is stored in several data centres. Whether a queue gets it depends on its subscription.
    properties: () => ({ proves: 'accepted', dedupes: fifo ? '5m' : false, orders: fifo }),
    async open() {
      if (typeof topic !== 'string') {
        return ['topic is a function: its topics are not checked, and neither order nor deduplication is promised']
      }
      const facts = await topicFacts(client, topic, timeoutMs)
      bytesMax = Number(facts['MaximumMessageSize'] ?? SNS_BYTES_MAX)
      return [...warnings(topic, facts)]
    },
    send: (TopicArn, messages, signal) => {
      const entries = messages.map(({ body, parts }, at) => ({ Id: String(at), Message: body, ...parts }))
      const request = { TopicArn, PublishBatchRequestEntries: entries }
      return answered(timeoutMs, (call) => client.publishBatch(request, call), signal)
    },
  })
}

async function topicFacts(client: SnsClient, topic: string, timeoutMs: number): Promise<Record<string, string>> {
  try {
    const request = { TopicArn: topic }
    const { Attributes = {} } = await answered(timeoutMs, (call) => client.getTopicAttributes(request, call))
    return Attributes
  } catch (error) {
    if (isNotFound(error)) throw invalid(`the topic '${topic}' does not exist`, error)
    throw error
  }
}

function* warnings(topic: string, { SubscriptionsConfirmed: subscribed }: Record<string, string>): Generator<string> {
  if (!isFifo(topic)) {
    yield `'${nameOf(topic)}' is a standard topic: events may arrive twice and out of order. Use a FIFO topic, or ordered events`
  }
  if (subscribed === '0') yield `'${nameOf(topic)}' has no confirmed subscription: SNS drops events that nobody gets`
}

function isTopicArn(topic: unknown): topic is string {
  return typeof topic === 'string' && /^arn:[\w-]+:sns:[\w-]*:\d*:[\w-]+(\.fifo)?$/.test(topic)
}
