export { redisSink } from '../sink/redis.ts'
export type { RedisSinkOptions } from '../sink/redis.ts'
export type { RedisClient } from '../sink/redis-client.ts'
