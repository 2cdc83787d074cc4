import { RABBITMQ_CONNECT_MS, RABBITMQ_PUBLISHES_MAX } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import { lanesOf } from '../../sink/lanes.ts'
import {
  isRabbitmqConnection,
  onChannel,
  rabbitmqCode,
  type RabbitmqChannel,
  type RabbitmqConnection,
  type RabbitmqEnvelope,
} from './client.ts'
import { ensureExchange, ensureQueue, queueWarnings } from './topology.ts'
import {
  cloudEventHeaders,
  cloudEventJson,
  contentMode,
  SENT,
  traceHeaders,
  type OutgoingEvent,
  type SendOptions,
  type Sink,
  type Verdict,
} from '../../sink/sink.ts'

export interface RabbitmqSinkOptions {
  /** The queue of the events, through the default exchange. Set either `queue` or `exchange`. */
  queue?: string
  exchange?: string
  /** Queues of the exchange, each with the routing keys it takes: `{ receipts: 'charge.*' }`. */
  queues?: Readonly<Record<string, string>>
  /** The routing key, with an `exchange`. Default: the event's type */
  routingKey?: string | ((event: OutgoingEvent) => string)
  /**
   * CloudEvents' content mode. 'structured' (default): one JSON document. 'binary': attributes are headers
   * (`cloudEvents:id`, …), and the body is the data alone.
   */
  mode?: 'structured' | 'binary'
  /** false: nothing is created, and a missing queue or exchange is an error. Default true */
  declare?: boolean
  /**
   * Set it if quorum queues have members on three or more nodes, which a client cannot see. Then a confirmed event is
   * replicated.
   */
  clustered?: boolean
  /** Names the destination. Default: `rabbitmq` and the name of the queue or the exchange */
  name?: string
}

const OPTIONS = new Set(['queue', 'exchange', 'queues', 'routingKey', 'mode', 'declare', 'clustered', 'name'])

/**
 * Publishes each event as one CloudEvents JSON document: persistent and mandatory. An event counts as sent when the
 * server has confirmed it. `message-id` is the event's id; RabbitMQ itself drops no duplicates.
 *
 * @example
 * await once.relay({ to: rabbitmqSink(new Connection(url), { queue: 'payments' }) }).start()
 */
export function rabbitmqSink(connection: RabbitmqConnection, options: RabbitmqSinkOptions): Sink {
  const place = checked(connection, options)
  let proves: Sink['proves'] = 'accepted'
  /** The largest message in bytes, if the server has reported it. */
  let bytesMax = Infinity
  let opened: Promise<OpenChannel> | undefined

  function learn(error: unknown): void {
    bytesMax = Math.min(bytesMax, sizeLimitIn(error) ?? Infinity)
  }

  /** One channel for all callers. A new one replaces a closed one. */
  function channelNow(): Promise<OpenChannel> {
    const former = (opened ?? Promise.resolve(undefined)).catch(() => undefined)
    opened = former.then((current) => {
      if (current?.channel.active) return current
      // The client would wait for the connection. An error at once lets the relay apply its own back-off.
      if (!connection.ready) throw new Error('RabbitMQ is not connected, or blocks publishers')
      return openChannel(connection, learn)
    })
    return opened
  }

  async function publish({ channel, returned }: OpenChannel, event: OutgoingEvent): Promise<Attempt> {
    let message: Message
    try {
      message = messageOf(event, place)
    } catch (error) {
      return failed(error, true)
    }
    const { envelope, body } = message
    if (body.length > bytesMax) {
      const reason = `the event has ${body.length} bytes; RabbitMQ takes ${bytesMax} (max_message_size)`
      return failed(new Error(reason), false)
    }
    const { brokerId } = event
    try {
      await channel.basicPublish(envelope, body)
    } catch (error) {
      if (rabbitmqCode(error) === 'NACK') return { nacked: error }
      learn(error)
      return { down: error }
    }
    // The server returns an unroutable message before it confirms it. The client reports the return one turn later.
    await new Promise((resolve) => setImmediate(resolve))
    const reason = returned.get(brokerId)
    returned.delete(brokerId)
    if (reason === undefined) return { verdict: SENT }
    // If every event is returned, the queues or their bindings are gone.
    return { verdict: perhapsDown(new Error(`RabbitMQ returned the event: ${reason}`)) }
  }

  /** Sends all events that have no verdict yet. Returns an error if it ended early. */
  async function sendOpen(
    events: readonly OutgoingEvent[],
    verdicts: (Verdict | undefined)[],
    nacked: Set<number>,
    { signal, told, mayBegin }: SendOptions,
  ): Promise<{ readonly error: unknown } | undefined> {
    const channel = await channelNow()
    let down: { readonly error: unknown } | undefined
    const run = async (lane: readonly number[]): Promise<void> => {
      for (const [at, index] of lane.entries()) {
        if (verdicts[index]) continue
        if (signal.aborted) down ??= { error: signal.reason }
        if (down || mayBegin?.() === false) return
        const attempt = await publish(channel, events[index] as OutgoingEvent)
        if ('down' in attempt) down ??= { error: attempt.down }
        if ('down' in attempt) return
        const verdict = 'nacked' in attempt ? perhapsDown(attempt.nacked) : attempt.verdict
        if (verdict.kind === 'sent') {
          verdicts[index] = verdict
          told?.(index, verdict)
        } else {
          // Later events of the aggregate must not overtake the failed one.
          for (const behind of lane.slice(at)) verdicts[behind] = verdict
          if ('nacked' in attempt) nacked.add(index)
          return
        }
      }
    }
    const lanes = lanesOf(events)
    let next = 0
    const worker = async (): Promise<void> => {
      for (let lane = lanes[next++]; lane; lane = lanes[next++]) await run(lane)
    }
    const workers = Array.from({ length: Math.min(RABBITMQ_PUBLISHES_MAX, lanes.length) }, worker)
    await settledOrAborted(Promise.all(workers), signal, () => (down ??= { error: signal.reason }))
    return down
  }

  async function drop(): Promise<void> {
    const former = opened
    opened = undefined
    const current = await former?.catch(() => undefined)
    await current?.channel.close().catch(() => {})
  }

  return {
    name: options.name ?? `rabbitmq ${place.name}`,
    system: 'rabbitmq',
    get proves() {
      return proves
    },
    dedupes: false,
    orders: true,
    // If a call fails, its confirmed events are sent again. So calls are small.
    batch: RABBITMQ_PUBLISHES_MAX,
    async open() {
      await connection.onConnect(RABBITMQ_CONNECT_MS, true)
      const warnings = await openTopology(connection, options)
      const queues = options.queue === undefined ? Object.keys(options.queues ?? {}) : [options.queue]
      if (queues.length > 0 && warnings.length === 0) proves = options.clustered === true ? 'replicated' : 'flushed'
      if (options.clustered !== true) {
        return [
          ...warnings,
          'the size of the cluster cannot be read from here: with fewer than three nodes, the loss of a machine loses events. With three nodes, pass clustered: true',
        ]
      }
      return warnings
    },
    async send(events, given) {
      if (events.length === 0) return []
      const verdicts: (Verdict | undefined)[] = []
      const nacked = new Set<number>()
      const before = bytesMax
      let down = await sendOpen(events, verdicts, nacked, given)
      // An event that is too large makes the server close the channel. Its limit is known now, so the others are sent.
      if (down && bytesMax < before) down = await sendOpen(events, verdicts, nacked, given)
      if (down) {
        void drop()
        throw down.error
      }
      const [first] = nacked
      // The server keeps refusing a channel whose queue lost its leader. The next call opens another channel.
      if (first !== undefined) void drop()
      // A queue that accepts nothing is a failure of the server. It costs no event an attempt.
      const nobodyServed = verdicts.every((verdict) => verdict?.kind === 'failed') && nacked.size > 0
      if (first !== undefined && nobodyServed && (options.queue !== undefined || nacked.size > 1)) {
        const verdict = verdicts[first]
        throw verdict?.kind === 'failed' ? verdict.error : new Error('RabbitMQ accepted no event')
      }
      return verdicts as Verdict[]
    },
    close: drop,
  }
}

/** The event may be at fault, or the server refuses every event. */
function perhapsDown(error: unknown): Verdict {
  return { kind: 'failed', error, retryable: true, perhapsDown: true }
}

type Attempt = { readonly verdict: Verdict } | { readonly nacked: unknown } | { readonly down: unknown }

interface OpenChannel {
  readonly channel: RabbitmqChannel
  /** Ids of messages that could not be routed, with the server's reason. */
  readonly returned: Map<string, string>
}

async function openChannel(connection: RabbitmqConnection, onError: (error: unknown) => void): Promise<OpenChannel> {
  const channel = await connection.acquire({ emitErrorsFromChannel: true })
  const returned = new Map<string, string>()
  channel.on('error', onError)
  channel.on('basic.return', ({ messageId, replyText }) => {
    if (messageId !== undefined) returned.set(messageId, replyText ?? 'no reason given')
  })
  await channel.confirmSelect()
  return { channel, returned }
}

async function openTopology(connection: RabbitmqConnection, options: RabbitmqSinkOptions): Promise<string[]> {
  const { queue, exchange = '', queues = {}, declare = true } = options
  const warnings: string[] = []
  if (queue === undefined) {
    const { durable } = await ensureExchange(connection, exchange, { declare })
    if (!durable) warnings.push(`exchange '${exchange}' is not durable: a restart of the server loses it`)
    if (Object.keys(queues).length === 0) {
      warnings.push(
        `the queues of exchange '${exchange}' cannot be listed from here: name them in queues, so that they are checked`,
      )
    }
  }
  for (const name of queue === undefined ? Object.keys(queues) : [queue]) {
    warnings.push(...queueWarnings(await ensureQueue(connection, name, { declare })))
    const routingKey = queues[name]
    if (declare && routingKey !== undefined) {
      await onChannel(connection, (channel) => channel.queueBind({ queue: name, exchange, routingKey }))
    }
  }
  return warnings
}

/** Ends with the work or with the signal: a confirm that never comes must not block the relay. */
async function settledOrAborted(work: Promise<unknown>, signal: AbortSignal, aborted: () => void): Promise<void> {
  let stop = (): void => {}
  const abort = new Promise<void>((resolve) => {
    stop = () => resolve()
    signal.addEventListener('abort', stop, { once: true })
  })
  await Promise.race([work, abort])
  signal.removeEventListener('abort', stop)
  if (signal.aborted) aborted()
}

function failed(error: unknown, retryable: boolean): Attempt {
  return { verdict: { kind: 'failed', error, retryable } }
}

function sizeLimitIn(error: unknown): number | undefined {
  if (rabbitmqCode(error) !== 'PRECONDITION_FAILED') return undefined
  const found = /larger than (?:configured )?max size (\d+)/.exec((error as Error).message)
  return found ? Number(found[1]) : undefined
}

/** Where events go. */
interface Place {
  readonly exchange: string
  readonly routingKeyOf: (event: OutgoingEvent) => string
  readonly mode: 'structured' | 'binary'
  readonly name: string
}

interface Message {
  readonly envelope: RabbitmqEnvelope
  readonly body: Buffer
}

function messageOf(event: OutgoingEvent, { exchange, routingKeyOf, mode }: Place): Message {
  const { id, brokerId, source, type } = event
  const routingKey: unknown = routingKeyOf(event)
  if (typeof routingKey !== 'string') throw new TypeError('the routing key is not a string')
  // The client would truncate the key, and the event would reach another queue.
  if (Buffer.byteLength(routingKey) > SHORT_BYTES_MAX) {
    throw new TypeError(`the routing key has more than ${SHORT_BYTES_MAX} bytes`)
  }
  const { 'content-type': contentType = '', ...attributes } =
    mode === 'binary' ? cloudEventHeaders(event, 'cloudEvents:') : STRUCTURED
  if (Buffer.byteLength(contentType) > SHORT_BYTES_MAX) {
    throw new TypeError(`the content type has more than ${SHORT_BYTES_MAX} bytes`)
  }
  const envelope = {
    exchange,
    routingKey,
    mandatory: true,
    durable: true,
    messageId: brokerId,
    appId: source,
    type,
    contentType,
    headers: { ...attributes, 'event-id': id, ...traceHeaders(event) },
  }
  return { envelope, body: Buffer.from(mode === 'binary' ? event.body : cloudEventJson(event)) }
}

const STRUCTURED: Record<string, string> = { 'content-type': 'application/cloudevents+json' }

function checked(connection: RabbitmqConnection, options: RabbitmqSinkOptions): Place {
  if (!isRabbitmqConnection(connection)) throw invalid('rabbitmqSink() needs a Connection of rabbitmq-client')
  refuseUnknown(options, OPTIONS, 'rabbitmqSink()')
  const { queue, exchange, queues, routingKey } = options ?? {}
  const mode = contentMode(options?.mode)
  const names = [queue ?? exchange, ...Object.keys(queues ?? {})]
  if ((queue === undefined) === (exchange === undefined) || !names.every(isName)) {
    throw invalid('rabbitmqSink() needs the name of a queue or of an exchange, not both')
  }
  if (queue !== undefined) {
    if (queues !== undefined || routingKey !== undefined) throw invalid('queues and routingKey belong to an exchange')
    return { exchange: '', routingKeyOf: () => queue, mode, name: queue }
  }
  const routingKeyOf =
    typeof routingKey === 'function' ? routingKey : (event: OutgoingEvent) => routingKey ?? event.type
  return { exchange: exchange as string, routingKeyOf, mode, name: exchange as string }
}

/** The limit of AMQP's short strings. */
const SHORT_BYTES_MAX = 255

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= SHORT_BYTES_MAX
}
