/** The part of a `Connection` of rabbitmq-client that sink and source use. */
export interface RabbitmqConnection {
  /** Connected, and not blocked by the server. */
  readonly ready: boolean
  acquire(options?: { emitErrorsFromChannel?: boolean }): Promise<RabbitmqChannel>
  onConnect(timeout?: number, disableAutoClose?: boolean): Promise<void>
}

export interface RabbitmqChannel {
  readonly active: boolean
  close(): Promise<void>
  confirmSelect(): Promise<void>
  basicPublish(envelope: RabbitmqEnvelope, body: Buffer): Promise<void>
  queueDeclare(params: QueueParams): Promise<unknown>
  exchangeDeclare(params: ExchangeParams): Promise<unknown>
  queueBind(params: { queue: string; exchange: string; routingKey: string }): Promise<unknown>
  basicQos(params: { prefetchCount: number }): Promise<unknown>
  basicConsume(
    params: { queue: string },
    callback: (message: RabbitmqMessage) => void,
  ): Promise<{ consumerTag: string }>
  basicCancel(consumerTag: string): Promise<unknown>
  basicAck(params: { deliveryTag: number }): void
  basicNack(params: { deliveryTag: number; requeue: boolean }): void
  on(name: 'basic.return', callback: (message: RabbitmqReturn) => void): unknown
  on(name: 'basic.cancel' | 'close' | 'error', callback: (reason?: unknown) => void): unknown
}

export interface RabbitmqEnvelope {
  exchange?: string
  routingKey: string
  mandatory?: boolean
  /** Written to disk, if the queue is durable. */
  durable?: boolean
  messageId?: string
  appId?: string
  type?: string
  contentType?: string
  headers?: Record<string, unknown>
}

export interface RabbitmqReturn {
  readonly messageId?: string
  readonly replyText?: string
}

export interface RabbitmqMessage {
  readonly body: unknown
  readonly deliveryTag: number
  readonly redelivered: boolean
  readonly routingKey?: string
  readonly messageId?: string
  readonly appId?: string
  readonly type?: string
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, unknown>>
}

export interface QueueParams {
  queue: string
  passive?: boolean
  durable?: boolean
  exclusive?: boolean
  autoDelete?: boolean
  arguments?: Record<string, unknown>
}

export interface ExchangeParams {
  exchange: string
  type?: string
  passive?: boolean
  durable?: boolean
  autoDelete?: boolean
  internal?: boolean
  arguments?: Record<string, unknown>
}

export function isRabbitmqConnection(value: unknown): value is RabbitmqConnection {
  const { acquire, onConnect } = (value ?? {}) as Partial<RabbitmqConnection>
  return typeof acquire === 'function' && typeof onConnect === 'function'
}

/** The code of an error of the client: `PRECONDITION_FAILED`, `NOT_FOUND`, `NACK`, … */
export function rabbitmqCode(error: unknown): string {
  return String((error as { code?: unknown } | null)?.code)
}

/** Runs on its own channel, because a refusal closes the channel. */
export async function onChannel<R>(
  connection: RabbitmqConnection,
  work: (channel: RabbitmqChannel) => Promise<R>,
): Promise<R> {
  const channel = await connection.acquire({ emitErrorsFromChannel: true })
  channel.on('error', () => {})
  try {
    return await work(channel)
  } finally {
    await channel.close().catch(() => {})
  }
}
