import { Redis } from 'ioredis'
import pg from 'pg'
import { expect, inject, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { instanceOf } from '../../src/once/instance.ts'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { tiered } from '../../src/tier/tiered.ts'
import { describeServers } from '../broker/support/describe-broker.ts'
import { DatabaseCopies } from '../support/database-copies.ts'

const { redis } = inject('servers')
const PROCESSES = 4
const RETRIES_OF_EACH = 50

describeServers('200 retries of one key at once, with a cold cache', ['redis', 'postgres'], () => {
  it('read the answer from the database once for each process', async () => {
    const copies = new DatabaseCopies()
    const url = copies.urlOf(await copies.copyOf())
    const client = new Redis('url' in redis ? redis.url : '')
    const pools: pg.Pool[] = []
    let reads = 0
    // Each is a process, as far as memory and connections go.
    const open = () => {
      const pool = new pg.Pool({ connectionString: url, max: 10 })
      pools.push(pool)
      pool.on('error', () => {})
      pool.on('acquire', () => reads++)
      const store = tiered(pgStore(pool), { cache: redisCache(client) })
      return effectivelyOnce({ namespace: 'stampede', store, guard: 'off', sweep: false })
    }
    const first = open()
    const others = Array.from({ length: PROCESSES }, open)
    try {
      await client.ping()
      await first.migrate()
      const operation = { scope: 'ann', key: 'k', input: 1 }
      expect(await first.run(operation, async () => 'paid')).toBe('paid')
      // After this the epoch is known, so the cache is asked.
      await Promise.all(others.map(async (once) => instanceOf(once).core.shared?.remove([])))
      const cached = await client.keys('effectively-once-cache:*')
      if (cached.length > 0) await client.del(...cached)
      reads = 0
      const never = async (): Promise<string> => Promise.reject(new Error('it ran again'))
      const retries = others.flatMap((once) =>
        Array.from({ length: RETRIES_OF_EACH }, () => once.run(operation, never)),
      )
      expect(new Set(await Promise.all(retries))).toEqual(new Set(['paid']))
      // One for the answer, and sometimes one for the epoch in the background.
      expect(reads).toBeLessThanOrEqual(2 * PROCESSES)
      expect(reads).toBeGreaterThanOrEqual(1)
    } finally {
      for (const once of [first, ...others]) await once.close()
      for (const pool of pools) await pool.end()
      client.disconnect()
      await copies.close()
    }
  })
})
