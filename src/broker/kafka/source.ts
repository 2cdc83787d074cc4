import { milliseconds, type Duration } from '../../duration.ts'
import {
  KAFKA_RETRIES,
  KAFKA_RETRY_MS,
  KAFKA_SESSION_MS_DEFAULT,
  KAFKA_SESSION_MS_MAX,
  KAFKA_SESSION_MS_MIN,
} from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Recreated } from '../../source/log-life.ts'
import type { Events } from '../../outbox/event.ts'
import type { MakeKafkaConsumer } from './consumer-client.ts'
import type { KafkaDelivery } from './delivery.ts'
import { KafkaReading } from './reading.ts'
import type { Delivery, EventsOf, PulledSource } from '../../source/source.ts'

export interface KafkaSourceOptions<E extends Events> {
  topic: string
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /** The group whose members share the partitions. Default: the consumer's name */
  group?: string
  /** Where the consumer starts in a partition that it has never read. Default 'earliest' */
  from?: 'earliest' | 'latest'
  /** A process that is silent for this long counts as dead, and its partitions go to others. Default '10s' */
  sessionTimeout?: Duration
  /** How long the topic keeps its events, and so how late an event can come again. Default '7d', as in Kafka */
  retention?: Duration
  /**
   * What to do when the topic was deleted and recreated. 'stop' (default): nothing is read, and an error reports it.
   * 'begin': the new topic is read from its beginning.
   */
  recreated?: Recreated
  name?: string
}

const OPTIONS = new Set(['topic', 'events', 'group', 'from', 'sessionTimeout', 'retention', 'recreated', 'name'])

/**
 * Reads a topic. The consumer's position in each partition is stored in the database, in the transaction of the effect.
 * The group only decides which process reads which partition. An aggregate's events come in order.
 *
 * @example
 * const make = (settings: KafkaConsumerSettings) => new Consumer({ clientId, bootstrapBrokers, ...settings })
 * once.consumer('receipts', { from: kafkaSource(make, { topic: 'payments', events }) }, { … })
 */
export function kafkaSource<E extends Events>(
  make: MakeKafkaConsumer,
  options: KafkaSourceOptions<E>,
): PulledSource<EventsOf<E>> {
  if (typeof make !== 'function') {
    throw invalid('kafkaSource() needs a function that creates a consumer with the given settings')
  }
  refuseUnknown(options, OPTIONS, 'kafkaSource()')
  const { topic, from = 'earliest', recreated = 'stop' } = options ?? {}
  if (typeof topic !== 'string' || !/^[\w.-]{1,249}$/.test(topic)) throw invalid('kafkaSource({ topic }) needs a name')
  if (typeof options.events !== 'object' || options.events === null) throw invalid('kafkaSource() needs { events }')
  if (from !== 'earliest' && from !== 'latest') throw invalid(`from must be 'earliest' or 'latest'`)
  if (recreated !== 'stop' && recreated !== 'begin') throw invalid(`recreated must be 'stop' or 'begin'`)
  const limits = { option: 'sessionTimeout', min: KAFKA_SESSION_MS_MIN, max: KAFKA_SESSION_MS_MAX }
  const sessionTimeout = milliseconds(options.sessionTimeout, KAFKA_SESSION_MS_DEFAULT, limits)
  const name = options.name ?? `kafka ${topic}`

  return {
    kind: 'pulled',
    name,
    system: 'kafka',
    types: Object.keys(options.events),
    events: options.events,
    redeliversFor: options.retention ?? '7d',
    holdsFor: 'connection',
    features: { orders: true, counts: false, marksRedelivered: true, delays: true, positions: true },
    async open({ consumer, signal, prefetch, positions, warn }) {
      const settings = {
        groupId: options.group ?? consumer,
        autocommit: false,
        isolationLevel: 1,
        sessionTimeout,
        // Members rejoin with their next heartbeat, even while they work, so one session is long enough.
        rebalanceTimeout: sessionTimeout,
        heartbeatInterval: Math.floor(sessionTimeout / 4),
        retries: KAFKA_RETRIES,
        retryDelay: KAFKA_RETRY_MS,
        autocreateTopics: false,
      } as const
      const client = () => make(settings)
      const reading = new KafkaReading({
        topic,
        name,
        from,
        recreated,
        prefetch,
        positions,
        signal,
        warn,
        make: client,
      })
      await reading.start().catch(async (error: unknown) => {
        await reading.close()
        if (!/unknown topic/i.test((error as Error).message)) throw error
        throw invalid(`Kafka has no topic '${topic}'; create it`, error)
      })
      const handles = (deliveries: readonly Delivery[]): KafkaDelivery[] => [...(deliveries as KafkaDelivery[])]
      return {
        receive: (params) => reading.next(params),
        // Nothing to do: the position was stored with the effect.
        ack: async () => {},
        giveBack: async (deliveries, { delayMs }) => reading.giveBack(handles(deliveries), delayMs),
        onRevoked: (callback) => reading.onRevoked(callback),
        again: (partitions) => reading.again(partitions),
        close: () => reading.close(),
      }
    },
  }
}
