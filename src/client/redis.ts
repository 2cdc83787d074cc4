import { keyedRedis, type KeyedRedisClient } from '../platform/keyed-redis.ts'
import type { CallStorage } from './types.ts'

const WITHIN_MS = 10_000
const ADD = `redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[2])
return redis.call('hget', KEYS[1], ARGV[1])`
const SWAP = `if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if #ARGV == 2 then redis.call('hdel', KEYS[1], ARGV[1]) else redis.call('hset', KEYS[1], ARGV[1], ARGV[3]) end
return 1`

/**
 * Keeps calls in one hash of Redis or Valkey, for any number of processes. A call is as durable as the server:
 * `appendfsync always` keeps it through a power failure.
 */
export function redisStorage(client: KeyedRedisClient, key = 'effectively-once:calls'): CallStorage {
  const redis = keyedRedis(client, 'redisStorage', WITHIN_MS)
  const run = (script: string, ...values: string[]): Promise<unknown> =>
    redis.call(key, ['EVAL', script, '1', key, ...values])
  return {
    add: async (name, text) => String(await run(ADD, name, text)),
    swap: async (name, from, to) => Number(await run(SWAP, name, from, ...(to === null ? [] : [to]))) === 1,
    list: async () => ((await redis.call(key, ['HVALS', key])) as unknown[]).map(String),
  }
}
