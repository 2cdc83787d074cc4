import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startRedisCluster, type RedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { redisSink } from '../../src/broker/redis/sink.ts'
import { redisSource } from '../../src/broker/redis/source.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { redisCache } from '../../src/entry/tiered.ts'
import { answerOf, claimOf, newKey, winLease } from '../../src/testing/contract/make.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { REDIS_CLIENTS, type RedisClientKind } from '../support/redis-clients.ts'
import { ClusterControl, until } from './support/cluster-control.ts'

const server = inject('servers').redis
/** Its processes are stopped and continued. */
const isOurs = 'url' in server && server.from === 'debian'
const TIMEOUT_MS = 120_000

/** A client whose user lets replicas answer reads. */
async function open(of: RedisClientKind, { nodes }: RedisCluster) {
  if (of === 'ioredis') {
    const startup = nodes.map(({ url }) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) }))
    const client = new Cluster(startup, { scaleReads: 'slave', lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => client.disconnect() }
  }
  const client = createCluster({ rootNodes: nodes.map(({ url }) => ({ url })), useReplicas: true })
  client.on('error', () => {})
  await client.connect()
  return { client, close: () => client.destroy() }
}

/** How often the replicas were asked to read data by a client. Written data reaches them as other commands. */
async function readsOf(replicas: readonly Redis[]): Promise<string[]> {
  const read = /^cmdstat_(hget|hgetall|hmget|get|xread|xpending|xinfo\S*|exists|eval|evalsha):/gm
  const stats = await Promise.all(replicas.map((replica) => replica.info('commandstats')))
  return stats.flatMap((text) => text.match(read) ?? [])
}

describe.skipIf(!isOurs)('a cluster whose replicas may answer reads', () => {
  let cluster: RedisCluster
  let control: ClusterControl
  let replicas: Redis[]
  beforeAll(async () => {
    cluster = await startRedisCluster()
    control = new ClusterControl(cluster.nodes.map(({ url }) => Number(new URL(url).port)))
    await control.settled()
    const all = cluster.nodes.map(({ url }) => new Redis(url).on('error', () => {}))
    const roles = await Promise.all(all.map((node) => node.info('replication')))
    replicas = all.filter((node, i) => {
      if (roles[i]?.includes('role:slave')) return true
      node.disconnect()
      return false
    })
    if (replicas.length !== 3) throw new Error(`${replicas.length} replicas instead of 3`)
    // A replica that has received no write is not shown to clients.
    const writer = new Cluster(cluster.nodes.map(({ url }) => url))
    for (let i = 0; i < 100; i++) await writer.set(newKey(), '1')
    writer.disconnect()
    await until(async () => {
      const shown = await Promise.all(replicas.map((replica) => replica.cluster('SLOTS')))
      return shown.every((slots) => slots.every((range) => range.length > 3))
    })
  }, TIMEOUT_MS)
  afterAll(async () => {
    for (const replica of replicas ?? []) replica.disconnect()
    control?.close()
    await cluster?.stop()
  })

  const resetStats = () => Promise.all(replicas.map((replica) => replica.config('RESETSTAT')))

  test.each(REDIS_CLIENTS)('is seen by this test, %s', { timeout: TIMEOUT_MS }, async (of) => {
    const { client, close } = await open(of, cluster)
    try {
      await resetStats()
      for (let i = 0; i < 20; i++) await client.get(newKey())
      expect(await readsOf(replicas)).not.toEqual([])
    } finally {
      close()
    }
  })

  test.each(REDIS_CLIENTS)('is not asked by the store, %s', { timeout: TIMEOUT_MS }, async (of) => {
    const { client, close } = await open(of, cluster)
    try {
      await resetStats()
      const store = redisStore(client, { replicas: 1 })
      for (let i = 0; i < 8; i++) {
        const claim = claimOf(newKey())
        const { id } = claim
        const { token, life } = await winLease(store, claim)
        const step = { id, token, life, name: 'pay' }
        await store.leases.startStep(step)
        expect(await store.leases.steps({ id, life })).toEqual([{ name: 'pay', state: 'started', result: null }])
        await store.leases.finishStep({ ...step, result: '1' })
        expect(await store.leases.steps({ id, life })).toEqual([{ name: 'pay', state: 'done', result: '1' }])
        expect(await store.leases.show?.({ id })).toMatchObject({ operation: { state: 'running' } })
        await store.leases.finish({ id, token, claim, answer: answerOf('1') })
        expect((await store.read({ id })).answer).toMatchObject({ status: 200 })
        const failure = { id, counted: true, error: 'no', fingerprint: 'f' }
        await store.inbox?.failed({ consumer: id, failures: [failure] })
        expect(await store.inbox?.tries({ consumer: id, ids: [id] })).toMatchObject([{ attempts: 1 }])
      }
      expect(await readsOf(replicas)).toEqual([])
    } finally {
      close()
    }
  })

  test.each(REDIS_CLIENTS)('is not asked by the shared cache, %s', { timeout: TIMEOUT_MS }, async (of) => {
    const { client, close } = await open(of, cluster)
    try {
      await resetStats()
      const cache = redisCache(client)
      for (let i = 0; i < 8; i++) {
        const planting = { key: `cache:{${newKey()}}`, nonce: 'n', forMs: 60_000 }
        expect(await cache.look(planting)).toBeNull()
        expect(await cache.write({ ...planting, entry: 'e' })).toBe(true)
        expect(await cache.look(planting)).toBe('e')
        await cache.drop([planting.key])
      }
      expect(await readsOf(replicas)).toEqual([])
    } finally {
      close()
    }
  })

  describe.each(REDIS_CLIENTS)('%s', (of) => {
    test.each([false, true])(
      'is not asked by sink and source; singleActive: %s',
      { timeout: TIMEOUT_MS },
      async (alone) => {
        const { client, close } = await open(of, cluster)
        const { signal } = new AbortController()
        try {
          await resetStats()
          for (let i = 0; i < 4; i++) {
            const stream = newKey()
            const sink = redisSink(client, { stream, waitFor: { replicas: 1, timeout: '5s' } })
            await sink.open?.()
            const source = redisSource(client, { stream, events: {}, idle: '1s', singleActive: alone })
            const positions = { read: async () => new Map<string, string>() }
            const of = { consumer: 'c', signal, prefetch: 10, positions, warn: () => {}, advise: () => {} }
            const first = await source.open(of)
            await sink.send([eventFor('a', 1), eventFor('a', 2)], { signal })
            let got = await first.receive({ max: 10, waitMs: 5_000, signal })
            expect(got).toHaveLength(2)
            if (!alone) {
              // Deliveries are counted, because an event that fails too often is parked.
              await first.giveBack(got, { delayMs: 0 })
              got = await first.receive({ max: 10, waitMs: 5_000, signal })
              expect(got.map(({ delivered }) => delivered)).toEqual([2, 2])
            }
            await first.ack(got)
            await first.close()
          }
          expect(await readsOf(replicas)).toEqual([])
        } finally {
          close()
        }
      },
    )
  })
})
