import { afterAll, describe, inject } from 'vitest'
import { isMissing } from '../../scripts/servers/index.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { undoCases } from '../protocol/undo-cases.ts'
import { openRedis } from '../support/redis-clients.ts'

const server = inject('servers').redis

describe.skipIf(isMissing(server))('an undo, Redis', async () => {
  if (isMissing(server)) return
  const { client, close } = await openRedis('node-redis', 'redis', server.url)
  const store = redisStore(client, { prefix: `undo-${Math.random().toString(36).slice(2)}` })
  afterAll(close)
  undoCases((options) => effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, ...options }) as never)
})
