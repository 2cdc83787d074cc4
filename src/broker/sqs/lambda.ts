import { milliseconds, type Duration } from '../../duration.ts'
import { LAMBDA_MARGIN_MS_DEFAULT, LAMBDA_MARGIN_MS_MAX, LAMBDA_MARGIN_MS_MIN } from './limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Events } from '../../outbox/event.ts'
import type { Delivery, EventsOf, PulledSource, Subscription } from '../../source/source.ts'
import { isFifo } from './client.ts'
import { SqsDelivery } from './delivery.ts'
import { nameOf } from './queue.ts'

/** The part of a record of an SQS event that the source uses. */
export interface LambdaSqsRecord {
  readonly messageId: string
  readonly receiptHandle: string
  readonly body: string
  readonly attributes: { readonly ApproximateReceiveCount: string; readonly MessageGroupId?: string | undefined }
  readonly messageAttributes: Readonly<Record<string, { readonly stringValue?: string | undefined }>>
  readonly eventSourceARN: string
}

export interface LambdaSqsEvent {
  readonly Records: readonly LambdaSqsRecord[]
}

/** What the event source gets: SQS delivers these messages again, and the others are deleted. */
export interface LambdaSqsAnswer {
  readonly batchItemFailures: { readonly itemIdentifier: string }[]
}

/** The part of Lambda's context that is used. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number
}

export interface LambdaSourceOptions<E extends Events> {
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /** The consumer stops this long before Lambda's timeout, and reports unhandled messages as failed. Default '2s' */
  margin?: Duration
  /** Default: `sqs lambda` */
  name?: string
}

/** A consumer, as `once.consumer()` returns it. It must not be started: each invocation drains it. */
export interface LambdaConsumer {
  drain(): Promise<number>
  stop(options: { within: Duration }): Promise<void>
}

export interface LambdaSource<M> extends PulledSource<M> {
  /** The function's handler. The event source mapping must have `ReportBatchItemFailures`. */
  handler(consumer: LambdaConsumer): (event: LambdaSqsEvent, context: LambdaContext) => Promise<LambdaSqsAnswer>
}

const OPTIONS = new Set(['events', 'margin', 'name'])

/**
 * The messages with which an SQS event source invokes a Lambda function.
 *
 * @example
 * const from = lambdaSource({ events })
 * export const handler = from.handler(once.consumer('receipts', { from }, { … }))
 */
export function lambdaSource<E extends Events>(options: LambdaSourceOptions<E>): LambdaSource<EventsOf<E>> {
  refuseUnknown(options, OPTIONS, 'lambdaSource()')
  if (typeof options?.events !== 'object' || options.events === null) throw invalid('lambdaSource() needs { events }')
  const limits = { option: 'margin', min: LAMBDA_MARGIN_MS_MIN, max: LAMBDA_MARGIN_MS_MAX }
  const marginMs = milliseconds(options.margin, LAMBDA_MARGIN_MS_DEFAULT, limits)
  const name = options.name ?? 'sqs lambda'
  let current = new Invocation([], name)
  let former: Promise<unknown> = Promise.resolve()

  async function invoke(consumer: LambdaConsumer, batch: Invocation, context: LambdaContext): Promise<LambdaSqsAnswer> {
    current = batch
    const leftMs = context.getRemainingTimeInMillis() - marginMs
    const within: Duration = `${Math.ceil(marginMs / 2)}ms`
    const timer = setTimeout(() => void consumer.stop({ within }), Math.max(0, leftMs))
    try {
      if (leftMs > 0) await consumer.drain()
    } catch (error) {
      // Nothing was handled: the invocation fails, which Lambda counts and reports.
      if (!batch.anySettled) throw error
    } finally {
      clearTimeout(timer)
      current = new Invocation([], name)
    }
    return { batchItemFailures: batch.failures().map((itemIdentifier) => ({ itemIdentifier })) }
  }

  return {
    kind: 'pulled',
    name,
    system: 'aws_sqs',
    types: Object.keys(options.events),
    events: options.events,
    redeliversFor: '14d',
    // A message whose retry is later than half of this time goes back to the queue, so that nobody pays for the wait.
    holdsFor: '4s',
    get features() {
      return { orders: current.isFifo, counts: true, marksRedelivered: true, delays: true, positions: false }
    },
    open: async () => current.subscription(),
    handler(consumer) {
      if (typeof consumer?.drain !== 'function') throw invalid('handler() needs a consumer of this source')
      return (event, context) => {
        if (!Array.isArray(event?.Records)) return Promise.reject(invalid('the event is not an event of SQS'))
        // An invocation at a time: a consumer drains one batch.
        const batch = new Invocation(event.Records, name)
        const answer = former.then(() => invoke(consumer, batch, context))
        former = answer.catch(() => {})
        return answer
      }
    },
  }
}

/** The messages of one invocation. */
class Invocation {
  readonly isFifo: boolean
  readonly #records: readonly LambdaSqsRecord[]
  readonly #settled = new Set<string>()
  #waiting: SqsDelivery[]

  constructor(records: readonly LambdaSqsRecord[], name: string) {
    this.#records = records
    this.isFifo = isFifo(records[0]?.eventSourceARN ?? '')
    this.#waiting = records.map((record) => deliveryOf(record, name))
  }

  get anySettled(): boolean {
    return this.#settled.size > 0
  }

  subscription(): Subscription {
    const settle = async (deliveries: readonly Delivery[]): Promise<void> => {
      for (const delivery of deliveries) this.#settled.add((delivery as SqsDelivery).receipt)
    }
    return {
      receive: async ({ max, signal }) => (signal.aborted ? [] : this.#waiting.splice(0, max)),
      ack: settle,
      reject: settle,
      giveBack: async (deliveries) => this.#holdBack(deliveries as readonly SqsDelivery[]),
      close: async () => {},
    }
  }

  /** In a FIFO queue, nothing runs that comes after a returned message of its group. */
  #holdBack(deliveries: readonly SqsDelivery[]): void {
    const groupOf = ({ receipt }: SqsDelivery): string | undefined =>
      this.#records.find(({ receiptHandle }) => receiptHandle === receipt)?.attributes.MessageGroupId
    const groups = new Set(deliveries.map(groupOf))
    if (this.isFifo) this.#waiting = this.#waiting.filter((delivery) => !groups.has(groupOf(delivery)))
  }

  /** In a FIFO queue, no message may be deleted that comes after a failed one of its group. */
  failures(): string[] {
    const groups = new Set<string | undefined>()
    return this.#records.flatMap(({ messageId, receiptHandle, attributes: { MessageGroupId: group } }) => {
      if (this.#settled.has(receiptHandle) && !(this.isFifo && groups.has(group))) return []
      groups.add(group)
      return [messageId]
    })
  }
}

function deliveryOf(record: LambdaSqsRecord, name: string): SqsDelivery {
  const { messageId: MessageId, receiptHandle: ReceiptHandle, body: Body, attributes: Attributes } = record
  const MessageAttributes = Object.fromEntries(
    Object.entries(record.messageAttributes ?? {}).map(([key, { stringValue }]) => [key, { StringValue: stringValue }]),
  )
  const message = { MessageId, ReceiptHandle, Body, Attributes, MessageAttributes }
  return new SqsDelivery(message, { queue: nameOf(record.eventSourceARN), name })
}
