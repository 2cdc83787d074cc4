import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { RedisClient } from '../../src/broker/redis/client.ts'
import { redisSource } from '../../src/broker/redis/source.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { survivesKills } from './support/describe-consumer-chaos.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

describeAlone('what a consumer relies on, Redis', 'redis', (own) => {
  for (const { name, takesServerAway, run } of sourceCases(() => sourceTarget('redis', own.server))) {
    it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('consumers of Redis killed at random', ['postgres', 'redis'], ({ redis }) => {
  survivesKills('redis', redis, 'shared')
})

describeServers('a source for Redis', ['redis'], ({ redis }) => {
  let io: Redis
  let node: ReturnType<typeof createClient>
  const warnings: unknown[] = []
  const { signal } = new AbortController()
  beforeAll(async () => {
    io = new Redis(redis)
    node = createClient({ url: redis })
    await node.connect()
  })
  afterAll(() => {
    io.disconnect()
    node.destroy()
  })
  const fresh = (): string => `source_${Math.random().toString(36).slice(2)}`
  async function opened(stream: string, client: RedisClient = io) {
    const source = redisSource(client, { stream, events: {}, idle: '500ms' })
    const warn = (error: unknown): void => void warnings.push(error)
    const positions = { read: async () => new Map() }
    return source.open({ consumer: 'c', signal, prefetch: 10, positions, warn, advise: warn })
  }
  const add = (stream: string, id: string) =>
    io.xadd(stream, '*', 'event', JSON.stringify({ specversion: '1.0', id, source: 's', type: 't' }))

  it('takes a client of redis', async () => {
    const stream = fresh()
    const subscription = await opened(stream, node)
    await add(stream, 'one')
    const [delivery] = await subscription.receive({ max: 5, waitMs: 3_000, signal })
    expect(delivery?.id).toBe('one')
    await subscription.giveBack([delivery!], { delayMs: 0 })
    const [again] = await subscription.receive({ max: 5, waitMs: 3_000, signal })
    expect([again?.id, again?.delivered]).toEqual(['one', 2])
    await subscription.extend?.([again!])
    await subscription.ack([again!])
    await subscription.close()
  })

  it('leaves no member behind, unless it has something pending', async () => {
    const stream = fresh()
    const members = async (): Promise<number> => ((await io.xinfo('CONSUMERS', stream, 'c')) as unknown[]).length
    const done = await opened(stream)
    await add(stream, 'one')
    await done.ack(await done.receive({ max: 5, waitMs: 3_000, signal }))
    await done.close()
    expect(await members()).toBe(0)
    const left = await opened(stream)
    await add(stream, 'two')
    expect(await left.receive({ max: 5, waitMs: 3_000, signal })).toHaveLength(1)
    await left.close()
    expect(await members()).toBe(1)
  })

  it('goes on after the stream was deleted, and tells of entries that were trimmed away unsettled', async () => {
    const stream = fresh()
    const subscription = await opened(stream)
    await io.del(stream)
    await expect(subscription.receive({ max: 5, waitMs: 100, signal })).rejects.toThrow(/NOGROUP/)
    await add(stream, 'one')
    expect(await subscription.receive({ max: 5, waitMs: 3_000, signal })).toHaveLength(1)
    await io.xtrim(stream, 'MAXLEN', 0)
    await new Promise((resolve) => setTimeout(resolve, 600))
    await subscription.receive({ max: 5, waitMs: 1_200, signal })
    expect(String(warnings)).toMatch(/1 entries of redis .* were trimmed before/)
    await subscription.close()
  })

  it('refuses what cannot work', () => {
    expect(() => redisSource(io, { stream: '', events: {} })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => redisSource(io, { stream: 'a' } as never)).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => redisSource(io, { stream: 'a', events: {}, acks: 1 } as never)).toThrow(/unknown option 'acks'/)
    expect(() => redisSource({} as never, { stream: 'a', events: {} })).toThrow(/ONCE_OPTION_INVALID/)
  })
})
