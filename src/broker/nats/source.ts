import { milliseconds, type Duration } from '../../duration.ts'
import { INBOX_MS_MAX, NATS_ACK_WAIT_MS_DEFAULT, NATS_ACK_WAIT_MS_MAX, NATS_ACK_WAIT_MS_MIN } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Recreated } from '../../source/log-life.ts'
import type { Events } from '../../outbox/event.ts'
import { LOG_FEATURES, LogReading, logSubscription } from '../../source/log-reading.ts'
import { ensureDurable, keptForMs, streamInfo } from './durable.ts'
import { NatsFetching, type NatsPullConsumer } from './fetching.ts'
import { NatsDelivery, type NatsMessage } from './delivery.ts'
import { NatsLog, natsTurn, type NatsLogClient } from './log.ts'
import type { Delivery, EventsOf, PulledSource, Subscription } from '../../source/source.ts'

/** The part of `jetstream(connection)` of @nats-io/jetstream that the source uses. */
export type NatsJetStreamReader = NatsLogClient

export interface NatsSourceOptions<E extends Events> {
  stream: string
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /** The durable that stores this consumer's position. Default: the consumer's name */
  durable?: string
  /** Only these subjects. Default: all of the stream's */
  subjects?: readonly string[]
  /** How long an event may be unsettled before NATS delivers it again. Default '30s' */
  ackWait?: Duration
  /**
   * One of the consumer's processes reads, and the others stand by. So an aggregate's events are handled in the order
   * of the stream. The position in the stream is stored with the effects, not in a durable. When the reading process
   * dies, another one continues after `ackWait`. Default false
   */
  singleActive?: boolean
  /**
   * With `singleActive`: what to do when the stream was deleted and recreated. 'stop' (default): nothing is read, and
   * an error reports it. 'begin': the new stream is read from its beginning. Without `singleActive`, the durable is
   * deleted with its stream, and a new durable starts by itself.
   */
  recreated?: Recreated
  name?: string
}

const OPTIONS = new Set(['stream', 'events', 'durable', 'subjects', 'ackWait', 'singleActive', 'recreated', 'name'])

/**
 * Reads a JetStream stream through a durable pull consumer, which processes of the same consumer share. The server
 * confirms acknowledgements. Failed events are redelivered after a delay, and dead letters are terminated.
 *
 * @example
 * once.consumer('receipts', { from: natsSource(jetstream(connection), { stream: 'payments', events }) }, { … })
 */
export function natsSource<E extends Events>(
  js: NatsJetStreamReader,
  options: NatsSourceOptions<E>,
): PulledSource<EventsOf<E>> {
  if (typeof js?.jetstreamManager !== 'function' || typeof js.consumers?.get !== 'function') {
    throw invalid('natsSource() needs jetstream(connection) of @nats-io/jetstream')
  }
  refuseUnknown(options, OPTIONS, 'natsSource()')
  const { stream, subjects = [], singleActive = false, recreated = 'stop' } = options ?? {}
  if (!isName(stream)) throw invalid('natsSource({ stream }) needs the name of a stream')
  if (typeof options.events !== 'object' || options.events === null) throw invalid('natsSource() needs { events }')
  if (typeof singleActive !== 'boolean') throw invalid('singleActive of natsSource() must be true or false')
  if (recreated !== 'stop' && recreated !== 'begin') throw invalid(`recreated must be 'stop' or 'begin'`)
  const limits = { option: 'ackWait', min: NATS_ACK_WAIT_MS_MIN, max: NATS_ACK_WAIT_MS_MAX }
  const ackWaitMs = milliseconds(options.ackWait, NATS_ACK_WAIT_MS_DEFAULT, limits)
  const name = options.name ?? `nats ${stream}`
  let keptMs = Infinity
  const redeliversFor = (): Duration | 'forever' => (keptMs > INBOX_MS_MAX ? 'forever' : `${keptMs}ms`)
  const durableOf = (consumer: string): string => {
    const durable = options.durable ?? consumer
    if (!isName(durable))
      throw invalid(`'${String(durable).slice(0, 80)}' is not a valid name of a durable; set durable`)
    return durable
  }

  if (singleActive) {
    return {
      kind: 'pulled',
      name,
      system: 'nats',
      types: Object.keys(options.events),
      events: options.events,
      get redeliversFor() {
        return redeliversFor()
      },
      holdsFor: 'connection',
      features: LOG_FEATURES,
      async open({ consumer, ...params }) {
        const { streams } = await js.jetstreamManager(false)
        keptMs = keptForMs((await streamInfo(streams, stream)).config.max_age)
        const turn = await natsTurn(js, { name: `${stream}_${durableOf(consumer)}_turn`, keptMs: ackWaitMs })
        const log = new NatsLog(js, { ...params, stream, subjects, name })
        const partition = async (): Promise<string> => {
          const life = { name: stream, id: await log.life(), recreated }
          return `${stream}${(await params.positions.lifeOf?.(life)) ?? ''}`
        }
        await partition()
        return logSubscription(new LogReading({ ...params, log, turn, partition }))
      },
    }
  }
  return {
    kind: 'pulled',
    name,
    system: 'nats',
    types: Object.keys(options.events),
    events: options.events,
    get redeliversFor() {
      return redeliversFor()
    },
    holdsFor: `${ackWaitMs}ms`,
    features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
    async open({ consumer, signal, advise }) {
      const durable = durableOf(consumer)
      const connect = async (): Promise<NatsPullConsumer> => {
        const manager = await js.jetstreamManager(false)
        keptMs = await ensureDurable(manager, { stream, durable, subjects, ackWaitMs, advise })
        return js.consumers.get(stream, durable)
      }
      return subscribe(new NatsFetching(connect, await connect(), signal), name)
    },
  }
}

function subscribe(fetching: NatsFetching, name: string): Subscription {
  const messagesOf = (deliveries: readonly Delivery[]): NatsMessage[] =>
    deliveries.map((delivery) => (delivery as NatsDelivery).message)
  return {
    async receive(params) {
      const messages = await fetching.next(params)
      return messages.map((message) => new NatsDelivery(message, name))
    },
    // Waits for the server's confirmation: after a lost acknowledgement, the event would come again.
    async ack(deliveries) {
      await Promise.all(messagesOf(deliveries).map((message) => message.ackAck()))
    },
    async giveBack(deliveries, { delayMs }) {
      for (const message of messagesOf(deliveries)) message.nak(Math.max(0, Math.ceil(delayMs)))
    },
    // The reason is omitted: servers before 2.11 do not understand it, and would deliver the event again. The dead
    // letter has the reason.
    async reject(deliveries) {
      for (const message of messagesOf(deliveries)) message.term()
    },
    async extend(deliveries) {
      for (const message of messagesOf(deliveries)) message.working()
    },
    close: () => fetching.close(),
  }
}

/** Names of streams and durables contain no spaces, dots, wildcards or slashes. */
function isName(name: unknown): name is string {
  return typeof name === 'string' && /^[^\s.*>/\\]+$/.test(name)
}
