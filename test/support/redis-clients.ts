import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import { SENTINEL_MASTER } from '../../scripts/servers/redis-sentinel.ts'
import type { KeyedRedisClient } from '../../src/platform/keyed-redis.ts'

export type RedisServerKind = 'redis' | 'valkey' | 'redisSentinel' | 'redisCluster'
export type RedisClientKind = 'ioredis' | 'node-redis'

export const REDIS_CLIENTS: readonly RedisClientKind[] = ['ioredis', 'node-redis']

export interface OpenRedis {
  readonly client: KeyedRedisClient
  close(): Promise<void>
}

/** A client as its users make it, connected to this kind of server. */
export async function openRedis(of: RedisClientKind, kind: RedisServerKind, url: string): Promise<OpenRedis> {
  const client = of === 'ioredis' ? ioRedis(kind, url) : nodeRedis(kind, url)
  client.on('error', () => {})
  if ('quit' in client && 'status' in client) {
    await client.connect()
    return { client, close: async () => client.disconnect() }
  }
  await client.connect()
  return { client: client as KeyedRedisClient, close: async () => void client.destroy() }
}

function ioRedis(kind: RedisServerKind, url: string): Redis | Cluster {
  const { hostname: host, port } = new URL(url)
  const node = { host, port: Number(port) }
  if (kind === 'redisCluster') return new Cluster([node], { lazyConnect: true })
  if (kind === 'redisSentinel') return new Redis({ sentinels: [node], name: SENTINEL_MASTER, lazyConnect: true })
  return new Redis(url, { lazyConnect: true })
}

function nodeRedis(kind: RedisServerKind, url: string) {
  const { hostname: host, port } = new URL(url)
  if (kind === 'redisCluster') return createCluster({ rootNodes: [{ url }] })
  if (kind === 'redisSentinel') {
    return createSentinel({ name: SENTINEL_MASTER, sentinelRootNodes: [{ host, port: Number(port) }] })
  }
  return createClient({ url })
}
