import { milliseconds, type Duration } from '../../duration.ts'
import { BROKER_WITHIN_MS } from '../../limits.ts'
import {
  SQS_DELAY_SECONDS_MAX,
  SQS_VISIBILITY_MS_DEFAULT,
  SQS_VISIBILITY_MS_MAX,
  SQS_VISIBILITY_MS_MIN,
  SQS_WAIT_MS_DEFAULT,
  SQS_WAIT_MS_MAX,
  SQS_WAIT_MS_MIN,
} from './limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Events } from '../../outbox/event.ts'
import type { Delivery, EventsOf, PulledSource, Subscription } from '../../source/source.ts'
import { isFifo, isQueueUrl, type SqsClient } from './client.ts'
import type { SqsDelivery } from './delivery.ts'
import { nameOf, queueFacts } from './queue.ts'
import { SqsReading } from './reading.ts'

export interface SqsSourceOptions<E extends Events> {
  /** The URL of the queue. Processes of the same consumer share it; another consumer needs another queue. */
  queue: string
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /**
   * The visibility timeout: how long an event may be unsettled before SQS delivers the event again. The source extends
   * this time while a handler runs. Rounded up to whole seconds. Default '30s'
   */
  visibility?: Duration
  /** How long one poll waits for messages. Longer polls cost less, but delay the stop of the consumer. Default '1s' */
  wait?: Duration
  /** Names the source. Default: `sqs` and the queue's name */
  name?: string
}

const OPTIONS = new Set(['queue', 'events', 'visibility', 'wait', 'name'])
/** The consumer counts attempts itself. SQS's own limit must not be reached first. */
const RECEIVES_ENOUGH = 1_000

/**
 * Reads a queue by long polling. In a FIFO queue, SQS gives no event to anybody while an earlier event of its group is
 * unsettled, so an aggregate's events are handled in order. Messages that came through SNS are read, too.
 *
 * @example
 * once.consumer('receipts', { from: sqsSource(new SQS(), { queue: url, events }) }, { … })
 */
export function sqsSource<E extends Events>(
  client: SqsClient,
  options: SqsSourceOptions<E>,
): PulledSource<EventsOf<E>> {
  if (typeof client?.receiveMessage !== 'function') {
    throw invalid('sqsSource() needs an SQS of @aws-sdk/client-sqs, not an SQSClient')
  }
  refuseUnknown(options, OPTIONS, 'sqsSource()')
  const { queue } = options ?? {}
  if (!isQueueUrl(queue)) throw invalid('sqsSource({ queue }) needs the URL of a queue')
  if (typeof options.events !== 'object' || options.events === null) throw invalid('sqsSource() needs { events }')
  const seen = { option: 'visibility', min: SQS_VISIBILITY_MS_MIN, max: SQS_VISIBILITY_MS_MAX }
  const visibilitySeconds = Math.ceil(milliseconds(options.visibility, SQS_VISIBILITY_MS_DEFAULT, seen) / 1_000)
  const waited = { option: 'wait', min: SQS_WAIT_MS_MIN, max: SQS_WAIT_MS_MAX }
  const waitSeconds = Math.ceil(milliseconds(options.wait, SQS_WAIT_MS_DEFAULT, waited) / 1_000)
  const name = options.name ?? `sqs ${nameOf(queue)}`

  return {
    kind: 'pulled',
    name,
    system: 'aws_sqs',
    types: Object.keys(options.events),
    events: options.events,
    // The longest time for which a queue keeps a message.
    redeliversFor: '14d',
    holdsFor: `${visibilitySeconds}s`,
    features: { orders: isFifo(queue), counts: true, marksRedelivered: true, delays: true, positions: false },
    async open({ signal, prefetch, advise }) {
      const { receivesMax } = await queueFacts(client, queue, BROKER_WITHIN_MS)
      if (receivesMax !== undefined && receivesMax < RECEIVES_ENOUGH) {
        advise(
          `the RedrivePolicy of '${nameOf(queue)}' has maxReceiveCount ${receivesMax}: after that many receives, SQS moves an event to another queue, and the consumer has no dead letter for it. Set ${RECEIVES_ENOUGH}`,
        )
      }
      return subscribe(new SqsReading(client, { queue, name, visibilitySeconds, waitSeconds, prefetch, signal }))
    },
  }
}

function subscribe(reading: SqsReading): Subscription {
  const ours = (deliveries: readonly Delivery[]): SqsDelivery[] => [...(deliveries as readonly SqsDelivery[])]
  return {
    receive: (params) => reading.next(params),
    ack: (deliveries) => reading.delete(ours(deliveries)),
    async giveBack(deliveries, { delayMs }) {
      const seconds = Math.min(SQS_DELAY_SECONDS_MAX, Math.max(0, Math.ceil(delayMs / 1_000)))
      await reading.giveBack(ours(deliveries), seconds)
    },
    extend: (deliveries) => reading.prolong(ours(deliveries)),
    close: () => reading.close(),
  }
}
