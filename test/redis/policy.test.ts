import { Cluster, Redis } from 'ioredis'
import { describe, expect, inject, test } from 'vitest'
import { startRedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { claimOf, leaseOf, newKey } from '../../src/testing/contract/make.ts'

const server = inject('servers').redis
/** A cluster from elsewhere must not get another policy. */
const isOurs = 'url' in server && server.from === 'debian'

describe.skipIf(!isOurs)('the eviction policy of a cluster', () => {
  test('is looked at by the first claim, even if the client has not connected yet', { timeout: 120_000 }, async () => {
    const cluster = await startRedisCluster()
    try {
      for (const { url } of cluster.nodes) {
        const node = new Redis(url)
        await node.config('SET', 'maxmemory-policy', 'allkeys-lru')
        node.disconnect()
      }
      const { hostname: host, port } = new URL(cluster.url)
      const client = new Cluster([{ host, port: Number(port) }])
      client.on('error', () => {})
      const store = redisStore(client)
      const claims = Array.from({ length: 3 }, () => store.leases.claim(leaseOf(claimOf(newKey()))))
      for (const claim of claims) await expect(claim).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
      client.disconnect()
    } finally {
      await cluster.stop()
    }
  })
})
