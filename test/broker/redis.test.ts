import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAlone } from '../../scripts/servers/index.ts'
import type { RedisClient } from '../../src/broker/redis/client.ts'
import { redisSink, type RedisSinkOptions } from '../../src/broker/redis/sink.ts'
import type { OutgoingEvent, Sink } from '../../src/sink/sink.ts'
import { eventFor, sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { brokerOutage } from './support/outage.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

const { signal } = new AbortController()

describeAlone('the sink contract, Redis', 'redis', (own) => {
  for (const { name, run } of sinkContract(() => sinkTarget('redis', own.server))) {
    it(name, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('relays to Redis killed at random', ['postgres', 'redis'], ({ redis }) => {
  it('nothing lost, nothing out of order', { timeout: 120_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'redis', url: redis, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 20_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
    } finally {
      await database.drop()
    }
  })
})

describeAlone('Redis stopped in mid-run', 'redis', (own) => {
  it('everything arrives after its return, without a tight loop meanwhile', { timeout: 90_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'redis', server: own.server, database: database.url, events: 1_500 }
      const result = await brokerOutage({ ...params, outageMs: 3_000, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
      expect(result.attempts).toBeGreaterThan(0)
      expect(result.attempts).toBeLessThan(30)
    } finally {
      await database.drop()
    }
  })
})

describeAlone('a sink for Redis', 'redis', (own) => {
  let io: Redis
  let node: ReturnType<typeof createClient>
  beforeAll(async () => {
    io = new Redis(own.server.url, { retryStrategy: () => 50 })
    io.on('error', () => {})
    node = createClient({ url: own.server.url })
    node.on('error', () => {})
    await node.connect()
  })
  afterAll(() => {
    io.disconnect()
    node.destroy()
  })
  const fresh = (): string => `sink_${Math.random().toString(36).slice(2)}`
  const send = (sink: Sink, ...events: OutgoingEvent[]) => sink.send(events, { signal })
  const opened = async (options: RedisSinkOptions, client: RedisClient = io) => {
    const sink = redisSink(client, options)
    return { sink, warnings: ((await sink.open?.()) ?? []).join('\n') }
  }

  it.each(['ioredis', 'redis'])('takes a client of %s', async (which) => {
    const stream = fresh()
    const { sink } = await opened({ stream }, which === 'redis' ? node : io)
    expect(sink.proves).toBe('flushed')
    expect(await send(sink, eventFor('a', 1), eventFor('a', 2))).toEqual([{ kind: 'sent' }, { kind: 'sent' }])
    expect(await io.xlen(stream)).toBe(2)
    await io.set(`not ${stream}`, 'a string')
    const wrong = redisSink(which === 'redis' ? node : io, { stream: `not ${stream}` })
    await expect(send(wrong, eventFor('a', 1))).rejects.toThrow()
  })

  it('declares what the settings make of an acknowledgement, and warns of them by name', async () => {
    const settings = { appendfsync: 'everysec', 'maxmemory-policy': 'allkeys-lru', maxmemory: '1gb' }
    for (const [name, value] of Object.entries(settings)) await io.config('SET', name, value)
    const { sink, warnings } = await opened({ stream: fresh() })
    expect(sink.proves).toBe('accepted')
    for (const name of ['appendfsync is everysec', 'maxmemory-policy is allkeys-lru', 'IDMP', 'waitFor']) {
      expect(warnings).toContain(name)
    }
    await io.config('SET', 'appendonly', 'no')
    expect((await opened({ stream: fresh() })).warnings).toContain('appendonly is no')
    const back = { appendonly: 'yes', appendfsync: 'always', 'maxmemory-policy': 'noeviction', maxmemory: '0' }
    for (const [name, value] of Object.entries(back)) await io.config('SET', name, value)
    const strong = await opened({ stream: fresh() })
    expect(strong.warnings).not.toMatch(/append|maxmemory|waitFor/)
  })

  it('says that it does not know where CONFIG is not allowed', async () => {
    await io.call('ACL', 'SETUSER', 'limited', 'on', '>secret', '~*', '+@all', '-config')
    const limited = new Redis(own.server.url, { username: 'limited', password: 'secret' })
    const { sink, warnings } = await opened({ stream: fresh() }, limited)
    expect(sink.proves).toBe('accepted')
    expect(warnings).toContain('CONFIG GET')
    limited.disconnect()
  })

  it('waits for replicas where it is told to', async () => {
    const { sink } = await opened({ stream: fresh(), waitFor: { replicas: 1, timeout: '50ms' } })
    expect(sink.proves).toBe('replicated')
    await expect(send(sink, eventFor('a', 1))).rejects.toThrow('0 of 1 replicas')
    await io.config('SET', 'repl-diskless-sync-delay', '0')
    const replica = await startAlone('redis')
    if ('missing' in replica) throw new Error(replica.missing)
    const client = new Redis(replica.url)
    const { hostname, port } = new URL(own.server.url)
    await client.call('REPLICAOF', hostname, port)
    await expect.poll(() => client.info('replication'), { timeout: 15_000 }).toMatch(/link_status:up/)
    const { sink: patient } = await opened({ stream: fresh(), waitFor: { replicas: 1, timeout: '5s' } })
    expect(await send(patient, eventFor('a', 1))).toEqual([{ kind: 'sent' }])
    client.disconnect()
    await replica.stop()
  })

  it('sends nothing while its connection is away, so that nothing waits in the client', async () => {
    const stream = fresh()
    const { sink } = await opened({ stream })
    await own.server.halt()
    await expect.poll(() => io.status).not.toBe('ready')
    await expect(send(sink, eventFor('a', 1))).rejects.toThrow('not ready')
    await own.server.resume()
    await expect.poll(() => io.status, { timeout: 5_000 }).toBe('ready')
    expect(await io.xlen(stream)).toBe(0)
    await expect(sink.send([eventFor('a', 1)], { signal: AbortSignal.abort(new Error('over')) })).rejects.toThrow(
      'over',
    )
    expect(await io.xlen(stream)).toBe(0)
  })

  it('waits while the server is full: all of a call or none', async () => {
    const stream = fresh()
    const { sink } = await opened({ stream })
    await io.config('SET', 'maxmemory', '1')
    await expect(send(sink, eventFor('a', 1), eventFor('b', 1))).rejects.toThrow(/OOM|EXECABORT/)
    await io.config('SET', 'maxmemory', '0')
    expect(await io.xlen(stream)).toBe(0)
    expect(await send(sink, eventFor('a', 1))).toEqual([{ kind: 'sent' }])
  })

  it('keeps about as many entries as it is told to', async () => {
    const stream = fresh()
    const { sink } = await opened({ stream, maxLength: 100 })
    await send(sink, ...Array.from({ length: 500 }, (_, i) => eventFor('a', i)))
    expect(await io.xlen(stream)).toBeLessThan(300)
    expect(() => redisSink(io, { stream, maxLength: 0 })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => redisSink(io, { stream: '' })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => redisSink(io, { stream, waitFor: { replicas: 0 } })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => redisSink(io, { stream, keep: 1 } as never)).toThrow(/unknown option 'keep'/)
    expect(() => redisSink({} as never, { stream })).toThrow(/ONCE_OPTION_INVALID/)
  })
})
