import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { tiered } from '../../src/tier/tiered.ts'
import { pgContract } from '../support/pg-contract.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { sqliteContract } from '../support/sqlite-contract.ts'

const { redis } = inject('servers')

if ('url' in redis) {
  const client = new Redis(redis.url, { lazyConnect: true })
  const cache = redisCache(client)
  describePostgres('the contract, on tiered PostgreSQL', (database) =>
    pgContract(database, (store) => tiered(store, { cache })),
  )
  describeSqlite('the contract, on tiered SQLite', (lab) => sqliteContract(lab, (store) => tiered(store, { cache })))
}
