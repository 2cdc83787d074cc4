import { Cluster, Redis } from 'ioredis'
import { describe, expect, inject, test } from 'vitest'
import { startRedisNode } from '../../scripts/servers/redis.ts'
import { startRedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { claimOf, leaseOf, newKey } from '../../src/testing/contract/make.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import type { Claim } from '../../src/store/store.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'
import { ClusterControl } from './support/cluster-control.ts'

const server = inject('servers').redis
/** A cluster from elsewhere must not get another policy. */
const isOurs = 'url' in server && server.from === 'debian'

describe.skipIf(!isOurs)('the eviction policy of a server', () => {
  test.each(REDIS_CLIENTS)('is looked at by ready() and by the start of a consumer, %s', async (of) => {
    const evicting = await startRedisNode(['--maxmemory-policy', 'allkeys-lru'])
    const { client, close } = await openRedis(of, 'redis', evicting.url)
    const once = effectivelyOnce({ namespace: 'policy', store: redisStore(client), guard: 'off' })
    const control = new Redis(evicting.url)
    const handlers = {
      'step.made': (_event: unknown, op: { commit(result: () => void): unknown }) => op.commit(() => {}),
    }
    const consumer = once.consumer('mail', { from: memoryBroker().source, lease: '10s' }, handlers as never)
    try {
      const readiness = await once.ready()
      expect(readiness).toMatchObject({ ready: false, reasons: [expect.stringContaining('allkeys-lru')] })
      await expect(consumer.start()).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
      await control.config('SET', 'maxmemory-policy', 'noeviction')
      expect(await once.ready()).toEqual({ ready: true, reasons: [] })
      await consumer.start()
    } finally {
      await once.close()
      control.disconnect()
      await close()
      await evicting.stop()
    }
  })
})

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

  test.each(REDIS_CLIENTS)(
    'a server that hangs stops no claim on another one, %s',
    { timeout: 120_000 },
    async (of) => {
      const cluster = await startRedisCluster()
      const control = new ClusterControl(cluster.nodes.map(({ url }) => Number(new URL(url).port)))
      await control.settled()
      const { client, close } = await openRedis(of, 'redisCluster', cluster.url)
      const { primary: hanging } = await control.placeOf('any')
      const pid = await control.pidOf(hanging.port)
      const [lost, claims]: Claim[][] = [[], []]
      while (lost!.length < 1 || claims!.length < 3) {
        const claim = claimOf(newKey())
        const { primary } = await control.placeOf(`effectively-once:{${claim.id}}`)
        ;(primary.port === hanging.port ? lost : claims)?.push(claim)
      }
      process.kill(pid, 'SIGSTOP')
      try {
        const store = redisStore(client)
        const first = store.leases.claim(leaseOf(lost![0]!)).catch(() => null)
        for (const claim of claims!) {
          expect(await store.leases.claim(leaseOf(claim))).toMatchObject({ claimed: { attempt: 1 } })
        }
        await first
      } finally {
        process.kill(pid, 'SIGCONT')
        await close()
        control.close()
        await cluster.stop()
      }
    },
  )
})
