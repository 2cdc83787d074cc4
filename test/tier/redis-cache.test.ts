import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { CacheServer } from '../../src/tier/cache-server.ts'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { until } from '../support/until.ts'
import { describeAlone } from '../broker/support/describe-broker.ts'

const key = 'effectively-once-cache:1.:{a}'
const mine = { key, nonce: 'mine', forMs: 10_000 }

describeAlone('a cache on Redis', 'redis', (own) => {
  let io: Redis
  let node: ReturnType<typeof createClient>
  beforeAll(async () => {
    io = new Redis(own.server.url, { retryStrategy: () => 50 })
    io.on('error', () => {})
    node = createClient({ url: own.server.url, socket: { reconnectStrategy: () => 50 } })
    node.on('error', () => {})
    await node.connect()
  })
  beforeEach(() => io.flushall())
  afterAll(() => {
    io.disconnect()
    node.destroy()
  })

  describe.each(['ioredis', 'redis'])('through %s', (client) => {
    const cache = (): CacheServer => redisCache(client === 'redis' ? node : io)

    it('gives what was written over the own nonce, for its time', async () => {
      expect(await cache().look(mine)).toBeNull()
      expect(await cache().write({ ...mine, entry: 'x', forMs: 300 })).toBe(true)
      expect(await cache().look(mine)).toBe('x')
      await until(async () => (await io.exists(key)) === 0)
      expect(await cache().look(mine)).toBeNull()
    })

    it('takes nothing from a reader whose nonce is gone', async () => {
      expect(await cache().write({ ...mine, entry: 'x' })).toBe(false)
      await cache().look(mine)
      await cache().drop([key])
      expect(await cache().write({ ...mine, entry: 'x' })).toBe(false)
      await cache().look(mine)
      await cache().look({ ...mine, nonce: 'other' })
      expect(await cache().write({ ...mine, entry: 'x' })).toBe(false)
      await cache().look(mine)
      await io.flushall()
      expect(await cache().write({ ...mine, entry: 'x' })).toBe(false)
    })

    it('needs no script in the server', async () => {
      await cache().look(mine)
      await io.script('FLUSH')
      expect(await cache().write({ ...mine, entry: 'x' })).toBe(true)
      await io.script('FLUSH')
      expect(await cache().look(mine)).toBe('x')
    })

    it('does not count what the server kept over a restart, neither entries nor nonces', async () => {
      const other = { ...mine, key: 'effectively-once-cache:1.:{b}' }
      await cache().look(mine)
      await cache().write({ ...mine, entry: 'x' })
      await cache().look(other)
      await own.server.halt()
      await own.server.resume()
      await until(() => cache().isReady())
      expect(await io.exists(key, other.key)).toBe(2)
      expect(await cache().look(mine)).toBeNull()
      expect(await cache().write({ ...other, entry: 'x' })).toBe(false)
    })
  })

  it('refuses what is no client', () => {
    expect(() => redisCache({} as Redis)).toThrow(/redisCache\(\) needs a client of ioredis or of redis/)
  })
})
