import { copyFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import pg from 'pg'
import { expect, inject, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { instanceOf } from '../../src/once/instance.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { tiered } from '../../src/tier/tiered.ts'
import { describeServers } from '../broker/support/describe-broker.ts'
import { DatabaseCopies } from '../support/database-copies.ts'
import { describeSqlite } from '../support/sqlite.ts'

const { redis } = inject('servers')

/** Runs one charge in a new process, as far as its memory goes. */
// oxlint-disable-next-line no-explicit-any -- any SQL store
async function charge(store: SqlStore<any>, key: string, who: string): Promise<unknown> {
  const client = new Redis('url' in redis ? redis.url : '')
  const cache = redisCache(client)
  const once = effectivelyOnce({ namespace: 'copies', store: tiered(store, { cache }), guard: 'off', sweep: false })
  try {
    await client.ping()
    await once.migrate()
    // After this the epoch is known.
    await instanceOf(once).core.shared?.remove([])
    const answer = await once.run({ scope: 'ann', key, input: 1 }, async () => who)
    // The cache is filled after the answer, and nobody waits for it.
    await new Promise((resolve) => setTimeout(resolve, 300))
    return answer
  } finally {
    await once.close()
    client.disconnect()
  }
}

describeServers('a copy of a database, with the same Redis as the original', ['redis', 'postgres'], () => {
  it('a PostgreSQL database made from a template runs its own operations', async () => {
    const copies = new DatabaseCopies()
    const chargeOn = async (name: string, key: string, who: string): Promise<unknown> => {
      const pool = new pg.Pool({ connectionString: copies.urlOf(name) })
      const answer = await charge(pgStore(pool), key, who)
      await pool.end()
      return answer
    }
    try {
      const original = await copies.copyOf()
      await chargeOn(original, 'before', 'original')
      const copy = await copies.copyOf(original)
      expect(await chargeOn(original, 'after', 'original')).toBe('original')
      expect(await chargeOn(copy, 'after', 'copy')).toBe('copy')
      expect(await chargeOn(copy, 'before', 'copy')).toBe('original')
    } finally {
      await copies.close()
    }
  })

  describeSqlite('a file', (lab) => {
    it('runs its own operations after it was copied', async () => {
      const [original, copy] = [lab.file(), lab.file()]
      const chargeOn = async (file: string, key: string, who: string): Promise<unknown> => {
        const store = lab.bare({ file })
        const answer = await charge(store, key, who)
        // The last connection moves the write-ahead log into the file.
        await store.close()
        return answer
      }
      await chargeOn(original, 'before', 'original')
      copyFileSync(original, copy)
      expect(await chargeOn(original, 'after', 'original')).toBe('original')
      expect(await chargeOn(copy, 'after', 'copy')).toBe('copy')
      expect(await chargeOn(copy, 'before', 'copy')).toBe('original')
    })
  })
})
