import { invalid, refuseUnknown, wholeNumber } from '../../options.ts'
import { systemClock } from '../../platform/clock.ts'
import { keyedRedis, type KeyedRedis, type KeyedRedisClient } from '../../platform/keyed-redis.ts'
import { systemRandom } from '../../platform/random.ts'
import { leasedParts } from '../leased/parts.ts'
import type { KeyStore, Store } from '../store.ts'
import { answerOf } from './answer.ts'
import { redisLeases } from './leases.ts'
import { recordOf } from './record.ts'
import { redisRows } from './rows.ts'
import { READ } from './scripts.ts'
import { ServerGuard } from './server.ts'
import { storeError, Transitions, type RedisParts } from './transition.ts'

const WITHIN_MS = 5_000
const REPLICAS_MAX = 16
const OPTIONS: ReadonlySet<string> = new Set(['replicas', 'prefix'])

export interface RedisStoreOptions {
  /**
   * How many replicas must confirm a claim before its operation runs. With fewer, nothing runs, and the caller gets
   * 503. Recorded results wait for as many replicas. Default: 0
   */
  readonly replicas?: number
  /** The beginning of every key. Default: 'effectively-once' */
  readonly prefix?: string
}

/**
 * Keeps leased operations in Redis 7 or later, or in Valkey. Takes a client of ioredis or of redis: for one server, for
 * servers behind Sentinel, or for a cluster. The store is not durable: a failover may lose a write that Redis has
 * acknowledged.
 *
 * @example
 * const once = effectivelyOnce({ namespace: 'shop', store: redisStore(new Redis(url), { replicas: 1 }) })
 */
export function redisStore(client: KeyedRedisClient, options: RedisStoreOptions = {}): Store<undefined> {
  refuseUnknown(options, OPTIONS, 'redisStore')
  if (typeof options !== 'object' || options === null) throw invalid('the options of redisStore must be an object')
  const { prefix = 'effectively-once' } = options
  const replicas = wholeNumber('replicas', options.replicas ?? 0, REPLICAS_MAX, 0)
  if (typeof prefix !== 'string' || !/^[^{}]+$/.test(prefix)) throw invalid('prefix must be a text without braces')
  const redis = keyedRedis(client, 'redisStore', WITHIN_MS)
  return redisStoreOn(redis, { prefix, replicas, clock: systemClock, random: systemRandom })
}

/** The same with a given clock and random numbers, for the simulator. */
export function redisStoreOn(redis: KeyedRedis, parts: RedisParts): Store<undefined> {
  const transitions = new Transitions(redis, parts)
  const guard = new ServerGuard(redis, parts.clock)
  const store: KeyStore = {
    name: 'redis',
    features: { transactional: false, concurrentClaims: true, serverDeadline: false, durable: false },
    leases: redisLeases(transitions, guard),
    async read({ id }) {
      const reply = await transitions.run({ script: READ, id, args: [] }).catch((error: unknown) => {
        throw storeError(error)
      })
      const [now, text, answer] = reply as readonly [string, string | null, string | null]
      return { record: recordOf(now, text), answer: answer === null ? null : answerOf(answer) }
    },
    close: async () => {},
  }
  const check = async (): Promise<void> => {
    await guard.check(transitions.keyOf('check'))?.catch((error: unknown) => {
      throw storeError(error)
    })
  }
  return { ...store, ...leasedParts(redisRows(transitions), store), check }
}
