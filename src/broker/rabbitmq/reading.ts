import { RABBITMQ_PREFETCH_MAX } from '../../limits.ts'
import { onChannel, type RabbitmqChannel, type RabbitmqConnection, type RabbitmqMessage } from './client.ts'
import { bodyOf, copiedHeaders, RabbitmqDelivery } from './delivery.ts'
import { RabbitmqPrefetch } from './prefetch.ts'
import type { ReceiveParams } from '../../source/source.ts'
import { Timers } from '../../source/timers.ts'
import { Waiting } from '../../source/waiting.ts'

export interface RabbitmqReadingOptions {
  readonly queue: string
  readonly name: string
  readonly prefetch: number
  /** Only one process reads, so returned events stay here, in order. */
  readonly singleActive: boolean
  readonly signal: AbortSignal
}

/** Reads through one channel, which is replaced when it closes. Unsettled events of a closed channel come again. */
export class RabbitmqReading {
  readonly #connection: RabbitmqConnection
  readonly #options: RabbitmqReadingOptions
  readonly #arrived: Waiting<RabbitmqDelivery>
  readonly #timers = new Timers()
  #channel: Promise<RabbitmqChannel> | undefined
  readonly #prefetches = new WeakMap<RabbitmqChannel, RabbitmqPrefetch>()
  #closed = false

  constructor(connection: RabbitmqConnection, options: RabbitmqReadingOptions) {
    this.#connection = connection
    this.#options = options
    this.#arrived = new Waiting(options.signal)
  }

  /** Rejects if the queue cannot be read. */
  async start(): Promise<void> {
    await this.#reading()
  }

  async next({ max, waitMs, signal }: ReceiveParams): Promise<readonly RabbitmqDelivery[]> {
    if (!this.#closed && !this.#arrived.any) await this.#reading()
    const taken = await this.#arrived.take(max, waitMs, signal)
    for (const channel of new Set(taken.map((delivery) => delivery.channel))) this.#prefetches.get(channel)?.adapt()
    return taken
  }

  /**
   * The server does not confirm acknowledgements. But when it answers a later request on the channel, it has received
   * them.
   */
  async ack(deliveries: readonly RabbitmqDelivery[]): Promise<void> {
    const channels = new Set<RabbitmqChannel>()
    for (const { channel, message } of deliveries) {
      if (!channel.active) continue
      channel.basicAck({ deliveryTag: message.deliveryTag })
      this.#prefetches.get(channel)?.settled()
      channels.add(channel)
    }
    await Promise.all([...channels].map((channel) => this.#limit(channel)))
  }

  giveBack(deliveries: readonly RabbitmqDelivery[], delayMs: number): void {
    if (delayMs <= 0 && !this.#options.singleActive) return this.#requeue(deliveries)
    this.#timers.after(delayMs, () => {
      if (this.#options.singleActive) this.#here(deliveries)
      else void this.#toTheEnd(deliveries)
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timers.clear()
    this.#arrived.end()
    const channel = await this.#channel?.catch(() => undefined)
    await channel?.close().catch(() => {})
  }

  #requeue(deliveries: readonly RabbitmqDelivery[]): void {
    for (const { channel, message } of deliveries) {
      if (!channel.active) continue
      channel.basicNack({ deliveryTag: message.deliveryTag, requeue: true })
      this.#prefetches.get(channel)?.settled()
    }
  }

  #here(deliveries: readonly RabbitmqDelivery[]): void {
    const { name } = this.#options
    for (const { message, channel } of deliveries) {
      if (channel.active) this.#arrived.push(new RabbitmqDelivery(message, channel, name, true))
    }
  }

  /**
   * Puts a copy at the end of the queue before the original is acknowledged. A requeued event would come first again,
   * block the events it waits for, and use up the queue's delivery limit, after which RabbitMQ drops it.
   */
  async #toTheEnd(deliveries: readonly RabbitmqDelivery[]): Promise<void> {
    const open = deliveries.filter(({ channel }) => channel.active)
    try {
      await onChannel(this.#connection, async (channel) => {
        await channel.confirmSelect()
        let returned = 0
        channel.on('basic.return', () => void returned++)
        await Promise.all(open.map((delivery) => channel.basicPublish(...this.#copyOf(delivery))))
        await new Promise((resolve) => setImmediate(resolve))
        if (returned > 0) throw new Error('the queue is gone')
      })
      await this.ack(open)
    } catch {
      this.#requeue(open)
    }
  }

  #copyOf(delivery: RabbitmqDelivery): Parameters<RabbitmqChannel['basicPublish']> {
    const { messageId, appId, type, contentType } = delivery.message
    const envelope = {
      routingKey: this.#options.queue,
      mandatory: true,
      durable: true,
      headers: copiedHeaders(delivery),
      ...(messageId === undefined ? {} : { messageId }),
      ...(appId === undefined ? {} : { appId }),
      ...(type === undefined ? {} : { type }),
      ...(contentType === undefined ? {} : { contentType }),
    }
    return [envelope, Buffer.from(bodyOf(delivery.message))]
  }

  /** Sets the limit for consumers that are added to the channel later. */
  #limit(channel: RabbitmqChannel, prefetch = this.#options.prefetch): Promise<unknown> {
    return channel.basicQos({ prefetchCount: Math.min(RABBITMQ_PREFETCH_MAX, prefetch) })
  }

  #reading(): Promise<RabbitmqChannel> {
    const former = (this.#channel ?? Promise.resolve(undefined)).catch(() => undefined)
    this.#channel = former.then((channel) => {
      if (channel?.active) return channel
      if (!this.#connection.ready) throw new Error('RabbitMQ is not connected')
      return this.#open()
    })
    return this.#channel
  }

  async #open(): Promise<RabbitmqChannel> {
    const { queue, name, singleActive } = this.#options
    const channel = await this.#connection.acquire({ emitErrorsFromChannel: true })
    const gone = (): void => {
      // Events that were not handed out come again on another channel.
      this.#arrived.drop((delivery) => delivery.channel === channel)
      this.#arrived.ring()
    }
    channel.on('error', gone)
    channel.on('close', gone)
    channel.on('basic.cancel', () => void channel.close())
    const arrived = (message: RabbitmqMessage): void => {
      if (!channel.active) return
      const delivery = new RabbitmqDelivery(message, channel, name)
      prefetch.came(delivery.bytes)
      this.#arrived.push(delivery)
    }
    const consume = async (count: number): Promise<string> => {
      // Send both together, so that no other limit is set in between.
      const begun = [this.#limit(channel, count), channel.basicConsume({ queue }, arrived)] as const
      return (await Promise.all(begun))[1].consumerTag
    }
    const cancel = (consumerTag: string): Promise<unknown> => channel.basicCancel(consumerTag)
    const prefetch = new RabbitmqPrefetch({ most: this.#options.prefetch, consume, cancel })
    // On a queue with a single active consumer, a second consumer would only stand by.
    if (singleActive) await consume(this.#options.prefetch)
    else {
      this.#prefetches.set(channel, prefetch)
      await prefetch.start()
    }
    return channel
  }
}
