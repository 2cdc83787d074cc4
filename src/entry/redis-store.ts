export { redisStore } from '../store/redis/redis-store.ts'
export type { RedisStoreOptions } from '../store/redis/redis-store.ts'
export type { KeyedRedisClient as RedisStoreClient } from '../platform/keyed-redis.ts'
