import { milliseconds, type Duration } from '../../duration.ts'
import { REDIS_IDLE_MS_DEFAULT, REDIS_IDLE_MS_MAX, REDIS_IDLE_MS_MIN } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { Events } from '../../outbox/event.ts'
import { newUuid } from '../../platform/uuid.ts'
import { redisCommands, type RedisClient } from './client.ts'
import { LOG_FEATURES, LogReading, logSubscription } from '../../source/log-reading.ts'
import type { RedisDelivery } from './delivery.ts'
import { RedisGroup } from './group.ts'
import { redisLog, redisTurn } from './log.ts'
import { RedisReading } from './reading.ts'
import type { Delivery, EventsOf, PulledSource, Subscription } from '../../source/source.ts'

export interface RedisSourceOptions<E extends Events> {
  /** The key of the stream. A missing stream is created. */
  stream: string
  /** The publisher's catalogue. It types the handlers. */
  events: E
  /** The consumer group that stores this consumer's position. Default: the consumer's name */
  group?: string
  /** How long an event may be unsettled before another process claims it. Default '30s' */
  idle?: Duration
  /**
   * One of the consumer's processes reads, and the others stand by. So an aggregate's events are handled in the order
   * of the stream. The position in the stream is stored with the effects. When the reading process dies, another process
   * continues after `idle`. Default false
   */
  singleActive?: boolean
  name?: string
}

const OPTIONS = new Set(['stream', 'events', 'group', 'idle', 'singleActive', 'name'])

/**
 * Reads a Redis stream through a consumer group, which processes of the same consumer share. Another process claims
 * events that a process left unsettled. For clients of ioredis and of redis. The source opens a separate connection for
 * reading.
 *
 * @example
 * once.consumer('receipts', { from: redisSource(new Redis(), { stream: 'payments', events }) }, { … })
 */
export function redisSource<E extends Events>(
  client: RedisClient,
  options: RedisSourceOptions<E>,
): PulledSource<EventsOf<E>> {
  refuseUnknown(options, OPTIONS, 'redisSource()')
  const { stream, singleActive = false } = options ?? {}
  if (typeof stream !== 'string' || stream === '') throw invalid('redisSource({ stream }) needs the key of a stream')
  if (typeof options.events !== 'object' || options.events === null) throw invalid('redisSource() needs { events }')
  if (typeof singleActive !== 'boolean') throw invalid('singleActive of redisSource() must be true or false')
  const redis = redisCommands(client, 'redisSource()', stream)
  const limits = { option: 'idle', min: REDIS_IDLE_MS_MIN, max: REDIS_IDLE_MS_MAX }
  const idleMs = milliseconds(options.idle, REDIS_IDLE_MS_DEFAULT, limits)
  const name = options.name ?? `redis ${stream}`

  if (singleActive) {
    return {
      kind: 'pulled',
      name,
      system: 'redis',
      types: Object.keys(options.events),
      events: options.events,
      redeliversFor: 'forever',
      holdsFor: 'connection',
      features: LOG_FEATURES,
      async open({ consumer, ...params }) {
        const turn = redisTurn(redis, { key: `${stream}:${options.group ?? consumer}:turn`, keptMs: idleMs })
        const log = redisLog(await redis.another(), { stream, name })
        return logSubscription(new LogReading({ ...params, log, turn, partition: async () => stream }))
      },
    }
  }
  return {
    kind: 'pulled',
    name,
    system: 'redis',
    types: Object.keys(options.events),
    events: options.events,
    redeliversFor: 'forever',
    holdsFor: `${idleMs}ms`,
    features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
    async open({ consumer, signal, warn }) {
      const group = new RedisGroup(redis, { stream, group: options.group ?? consumer, member: newUuid(), idleMs })
      await group.make()
      const reading = new RedisReading(group, await redis.another(), { name, signal, warn })
      await reading.start()
      return subscribe(group, reading)
    },
  }
}

function subscribe(group: RedisGroup, reading: RedisReading): Subscription {
  const idsOf = (deliveries: readonly Delivery[]): string[] =>
    deliveries.map((delivery) => (delivery as RedisDelivery).entry)
  return {
    receive: (params) => reading.next(params),
    ack: (deliveries) => group.ack(idsOf(deliveries)),
    async giveBack(deliveries, { delayMs }) {
      await reading.giveBack(idsOf(deliveries), delayMs)
    },
    extend: (deliveries) => group.touch(idsOf(deliveries), 0),
    close: () => reading.close(),
  }
}
