export { fileStorage } from '../client/file.ts'
export { redisStorage } from '../client/redis.ts'
export type { KeyedRedisClient as RedisStorageClient } from '../platform/keyed-redis.ts'
export { sqliteStorage, type SqliteLike } from '../client/sqlite.ts'
