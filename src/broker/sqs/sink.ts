import { milliseconds, type Duration } from '../../duration.ts'
import { SQS_BYTES_MAX, SQS_TIMEOUT_MS_DEFAULT, SQS_TIMEOUT_MS_MAX } from './limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { OutgoingEvent, Sink } from '../../sink/sink.ts'
import { batchSink } from './batch-sink.ts'
import { answered, isFifo, isQueueUrl, type SqsClient } from './client.ts'
import { isAmazons, nameOf, queueFacts } from './queue.ts'

export interface SqsSinkOptions {
  /** The URL of the queue, or a function that returns the queue of an event. The queue must exist. */
  queue: string | ((event: OutgoingEvent) => string)
  /** Names the destination. Default: `sqs` and the queue's name. Needed if `queue` is a function */
  name?: string
  /** How long one request may take. Default '10s' */
  timeout?: Duration
}

const OPTIONS = new Set(['queue', 'name', 'timeout'])
const RETENTION_SECONDS_MAX = 14 * 86_400

/**
 * Sends to a queue, each event as one message with a CloudEvents JSON document. In a FIFO queue, the aggregate is the
 * message group, so its events keep their order, and SQS drops an event that a relay sends again within five minutes. A
 * standard queue promises neither.
 *
 * @example
 * await once.relay({ to: sqsSink(new SQS(), { queue: 'https://sqs.eu-central-1.amazonaws.com/123/payments.fifo' }) }).start()
 */
export function sqsSink(client: SqsClient, options: SqsSinkOptions): Sink {
  if (typeof client?.sendMessageBatch !== 'function') {
    throw invalid('sqsSink() needs an SQS of @aws-sdk/client-sqs, not an SQSClient')
  }
  refuseUnknown(options, OPTIONS, 'sqsSink()')
  const { queue } = options ?? {}
  const name = options?.name ?? (typeof queue === 'string' ? `sqs ${nameOf(queue)}` : undefined)
  if (typeof queue !== 'function' && !isQueueUrl(queue)) throw invalid('sqsSink({ queue }) needs the URL of a queue')
  if (name === undefined) throw invalid('sqsSink() needs a name if queue is a function')
  const limits = { option: 'timeout', min: 1, max: SQS_TIMEOUT_MS_MAX }
  const timeoutMs = milliseconds(options.timeout, SQS_TIMEOUT_MS_DEFAULT, limits)
  const fifo = typeof queue === 'string' && isFifo(queue)
  let messageBytes = SQS_BYTES_MAX

  return batchSink({
    name,
    system: 'aws_sqs',
    to: queue,
    check(place) {
      if (!isQueueUrl(place)) throw new TypeError(`'${String(place).slice(0, 200)}' is not the URL of a queue`)
      return place
    },
    bytesMax: () => ({ message: messageBytes, request: SQS_BYTES_MAX }),
    properties: () => ({
      proves: typeof queue === 'string' && isAmazons(queue) ? 'replicated' : 'accepted',
      dedupes: fifo ? '5m' : false,
      orders: fifo,
    }),
    async open() {
      if (typeof queue !== 'string') {
        return ['queue is a function: its queues are not checked, and neither order nor deduplication is promised']
      }
      const facts = await queueFacts(client, queue, timeoutMs)
      messageBytes = facts.bytesMax
      return [...warnings(queue, facts.retentionSeconds)]
    },
    send: (QueueUrl, messages, signal) => {
      const Entries = messages.map(({ body, parts }, at) => ({ Id: String(at), MessageBody: body, ...parts }))
      return answered(timeoutMs, (call) => client.sendMessageBatch({ QueueUrl, Entries }, call), signal)
    },
  })
}

function* warnings(queue: string, retentionSeconds: number): Generator<string> {
  if (!isFifo(queue)) {
    yield `'${nameOf(queue)}' is a standard queue: events may arrive twice and out of order. Use a FIFO queue, or ordered events`
  }
  if (!isAmazons(queue)) yield 'the queue is not one of amazonaws.com: what its acknowledgement proves is not known'
  if (retentionSeconds < RETENTION_SECONDS_MAX) {
    yield `MessageRetentionPeriod is ${retentionSeconds} s: SQS drops older events, even unread ones. Set 1209600`
  }
}
