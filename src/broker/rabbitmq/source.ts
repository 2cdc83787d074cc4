import { RABBITMQ_CONNECT_MS } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Events } from '../../outbox/event.ts'
import { isRabbitmqConnection, type RabbitmqConnection } from './client.ts'
import { ensureQueue, queueWarnings, type QueueFacts } from './topology.ts'
import type { RabbitmqDelivery } from './delivery.ts'
import { RabbitmqReading } from './reading.ts'
import type { Delivery, EventsOf, PulledSource } from '../../source/source.ts'

export interface RabbitmqSourceOptions<E extends Events> {
  queue: string
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /**
   * One of the consumer's processes reads, and the others stand by. So an aggregate's events are handled in the order
   * of the queue. `singleActive` is a setting of the queue. Default false
   */
  singleActive?: boolean
  /** false: the queue is not created, and must exist. Default true */
  declare?: boolean
  name?: string
}

const OPTIONS = new Set(['queue', 'events', 'singleActive', 'declare', 'name'])

/**
 * Reads a queue, which processes of the same consumer share; another consumer reads another queue. An event that is given
 * back goes to the end of its queue after the delay.
 *
 * @example
 * once.consumer('receipts', { from: rabbitmqSource(connection, { queue: 'receipts', events }) }, { … })
 */
export function rabbitmqSource<E extends Events>(
  connection: RabbitmqConnection,
  options: RabbitmqSourceOptions<E>,
): PulledSource<EventsOf<E>> {
  if (!isRabbitmqConnection(connection)) throw invalid('rabbitmqSource() needs a Connection of rabbitmq-client')
  refuseUnknown(options, OPTIONS, 'rabbitmqSource()')
  const { queue, declare = true, singleActive = false } = options ?? {}
  if (typeof queue !== 'string' || queue === '' || Buffer.byteLength(queue) > 255) {
    throw invalid('rabbitmqSource({ queue }) needs the name of a queue')
  }
  if (typeof options.events !== 'object' || options.events === null) throw invalid('rabbitmqSource() needs { events }')
  const name = options.name ?? `rabbitmq ${queue}`

  return {
    kind: 'pulled',
    name,
    system: 'rabbitmq',
    types: Object.keys(options.events),
    events: options.events,
    redeliversFor: 'forever',
    // The server's consumer_timeout, after which it closes the channel.
    holdsFor: '30m',
    features: { orders: singleActive, counts: true, marksRedelivered: true, delays: true, positions: false },
    async open({ signal, prefetch, advise }) {
      await connection.onConnect(RABBITMQ_CONNECT_MS, true)
      const wanted = singleActive ? { 'x-single-active-consumer': true } : {}
      const facts = await ensureQueue(connection, queue, { declare, arguments: wanted })
      if (singleActive && facts.type !== 'unknown' && facts.arguments['x-single-active-consumer'] !== true) {
        throw invalid(`queue '${queue}' exists without x-single-active-consumer, which singleActive needs`)
      }
      for (const advice of [...queueWarnings(facts), ...limitWarnings(facts)]) advise(advice)
      const reading = new RabbitmqReading(connection, { queue, name, prefetch, singleActive, signal })
      await reading.start()
      const handles = (deliveries: readonly Delivery[]): RabbitmqDelivery[] => [...(deliveries as RabbitmqDelivery[])]
      return {
        receive: (params) => reading.next(params),
        ack: (deliveries) => reading.ack(handles(deliveries)),
        giveBack: async (deliveries, { delayMs }) => reading.giveBack(handles(deliveries), delayMs),
        close: () => reading.close(),
      }
    },
  }
}

/** After its delivery limit, the server drops or dead-letters an event, whatever the consumer's `attempts` are. */
function* limitWarnings({ queue, type, arguments: set }: QueueFacts): Generator<string> {
  const limit = set['x-delivery-limit']
  if (limit !== undefined && set['x-dead-letter-exchange'] === undefined) {
    yield `queue '${queue}' has x-delivery-limit ${String(limit)} and no dead-letter exchange: RabbitMQ drops an event that ended its process that many times`
  }
  if (type === 'classic') yield `queue '${queue}' does not count deliveries: it is a classic queue`
}
