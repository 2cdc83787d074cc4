import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startRedisCluster, type RedisCluster } from '../../scripts/servers/redis-cluster.ts'
import type { RedisClient } from '../../src/broker/redis/client.ts'
import { redisSink } from '../../src/broker/redis/sink.ts'
import { redisSource } from '../../src/broker/redis/source.ts'
import type { Subscription } from '../../src/source/source.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { ClusterControl } from '../redis/support/cluster-control.ts'

const TIMEOUT_MS = 120_000
const { signal } = new AbortController()
const fresh = (): string => `cluster_${Math.random().toString(36).slice(2)}`

let servers: RedisCluster
let io: Cluster
let node: ReturnType<typeof createCluster>

const CLIENTS: Readonly<Record<string, () => RedisClient>> = {
  ioredis: () => io,
  redis: () => node,
}

async function subscribed(client: RedisClient, stream: string, singleActive = false): Promise<Subscription> {
  const source = redisSource(client, { stream, events: {}, idle: '1s', singleActive })
  const positions = { read: async () => new Map<string, string>() }
  const { signal: stop } = new AbortController()
  return source.open({ consumer: 'c', signal: stop, prefetch: 10, positions, warn: () => {}, advise: () => {} })
}

/** Receives and acknowledges until nothing new comes. A failover in between is an error that passes. */
async function drained(subscription: Subscription, count: number, ids = new Set<string>()): Promise<Set<string>> {
  for (const until = performance.now() + 60_000; ids.size < count && performance.now() < until;) {
    try {
      const got = await subscription.receive({ max: 50, waitMs: 500, signal })
      await subscription.ack(got)
      for (const { id } of got) ids.add(id)
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
  return ids
}

describe.each(Object.keys(CLIENTS))('Redis Cluster with the client of %s', (library) => {
  // The last test takes a server away.
  beforeAll(async () => {
    servers = await startRedisCluster()
    io = new Cluster(
      servers.nodes.map(({ url }) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) })),
      { clusterRetryStrategy: () => 100 },
    )
    io.on('error', () => {})
    node = createCluster({ rootNodes: servers.nodes.map(({ url }) => ({ url })) })
    node.on('error', () => {})
    await node.connect()
  }, TIMEOUT_MS)

  // A busy machine may hold a server up for so long that the cluster promotes a replica.
  beforeEach(async () => {
    const control = new ClusterControl(servers.nodes.map(({ url }) => Number(new URL(url).port)))
    await control.settled().finally(() => control.close())
  }, TIMEOUT_MS)

  afterAll(async () => {
    io?.disconnect()
    node?.destroy()
    await servers?.stop()
  })

  const client = (): RedisClient => (CLIENTS[library] as () => RedisClient)()

  it('a sink appends on every server, all events of a call or none', { timeout: TIMEOUT_MS }, async () => {
    // Streams of many names are on all three primaries.
    for (let n = 0; n < 12; n++) {
      const stream = fresh()
      const sink = redisSink(client(), { stream, waitFor: { replicas: 1, timeout: '5s' } })
      await sink.open?.()
      expect(sink.proves).toBe('replicated')
      expect(await sink.send([eventFor('a', 1), eventFor('a', 2)], { signal })).toHaveLength(2)
      expect(await io.xlen(stream)).toBe(2)
      await io.set(`not ${stream}`, 'text')
      const wrong = redisSink(client(), { stream: `not ${stream}` })
      await expect(wrong.send([eventFor('a', 1)], { signal })).rejects.toThrow()
    }
  })

  it.each([false, true])('a source reads, and gives back; singleActive: %s', { timeout: TIMEOUT_MS }, async (alone) => {
    for (let n = 0; n < 4; n++) {
      const stream = fresh()
      const sink = redisSink(client(), { stream })
      await sink.open?.()
      const subscription = await subscribed(client(), stream, alone)
      await sink.send([eventFor('a', 1), eventFor('a', 2)], { signal })
      expect((await drained(subscription, 2)).size).toBe(2)
      await subscription.close()
    }
  })

  it.each([undefined, 1])(
    'a sink finds a stream whose slot was moved, replicas: %s',
    { timeout: TIMEOUT_MS },
    async (replicas) => {
      const control = new ClusterControl(servers.nodes.map(({ url }) => Number(new URL(url).port)))
      const stream = fresh()
      const waitFor = replicas === undefined ? {} : { waitFor: { replicas, timeout: '2s' as const } }
      const sink = redisSink(client(), { stream, ...waitFor })
      await sink.open?.()
      await sink.send([eventFor('a', 1)], { signal })
      await control.move(stream)
      await sink.send([eventFor('a', 2)], { signal })
      // A node that has not heard of the first move would name the wrong owner.
      await control.settled()
      await control.move(stream)
      expect(await redisSink(client(), { stream }).open?.()).toBeDefined()
      expect(await io.xlen(stream)).toBe(2)
      control.close()
    },
  )

  it('a failover loses no event that a replica had', { timeout: TIMEOUT_MS }, async () => {
    const { stream, primary } = await placeWithReplica()
    const strict = redisSink(client(), { stream, waitFor: { replicas: 1, timeout: '2s' } })
    // The promoted server has no replica.
    const lenient = redisSink(client(), { stream })
    for (const sink of [strict, lenient]) await sink.open?.()
    const subscription = await subscribed(client(), stream)
    const ids = new Set<string>()
    const reading = drained(subscription, 100, ids)
    const sent: string[] = []
    for (let n = 1; n <= 100; n++) {
      const event = eventFor('a', n)
      await eventually(() => (n <= 50 ? strict : lenient).send([event], { signal }))
      sent.push(event.id)
      if (n === 50) await primary.stop()
    }
    await reading
    expect(sent.filter((id) => !ids.has(id))).toEqual([])
    await subscription.close()
  })
})

/** A stream whose primary has a replica, and that primary. */
async function placeWithReplica(): Promise<{ stream: string; primary: RedisCluster['nodes'][number] }> {
  const slots = await io.cluster('SLOTS')
  for (let tries = 0; tries < 1_000; tries++) {
    const stream = fresh()
    const slot = await io.cluster('KEYSLOT', stream)
    const [, , primary, replica] = slots.find(([from, to]) => from <= slot && slot <= to) ?? []
    const server = servers.nodes.find(({ url }) => primary && Number(new URL(url).port) === primary[1])
    if (server && replica) return { stream, primary: server }
  }
  throw new Error('no primary has a replica')
}

async function eventually<T>(work: () => Promise<T>): Promise<T> {
  for (const until = performance.now() + 60_000; ;) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
