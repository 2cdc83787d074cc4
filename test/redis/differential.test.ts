import { describe, expect, inject, test } from 'vitest'
import { isMissing, type Server } from '../../scripts/servers/index.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { lateServer } from '../support/late-servers.ts'
import { openRedis } from '../support/redis-clients.ts'
import { compareLeased } from './support/leased-differential.ts'

const SCRIPTS = 40
const TIMEOUT_MS = 600_000

const servers: Record<'redis' | 'redisCluster', Server> = {
  redis: inject('servers').redis,
  redisCluster: await lateServer('redisCluster'),
}

describe.each(['redis', 'redisCluster'] as const)('leases in memory against %s', (kind) => {
  const server = servers[kind]
  test.skipIf(isMissing(server))(`${SCRIPTS} scripts`, { timeout: TIMEOUT_MS }, async () => {
    const open = await openRedis(kind === 'redis' ? 'node-redis' : 'ioredis', kind, isMissing(server) ? '' : server.url)
    for (let seed = 1; seed <= SCRIPTS; seed++) {
      const [told, expected] = await compareLeased(seed, redisStore(open.client))
      expect(told, `seed ${seed}`).toEqual(expected)
    }
    await open.close()
  })
})
