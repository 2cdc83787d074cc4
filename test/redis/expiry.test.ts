import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isMissing } from '../../scripts/servers/index.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { claimOf, finishOne, leaseOf, newKey, pass } from '../../src/testing/contract/make.ts'
import { lateServer } from '../support/late-servers.ts'
import { openRedis, type OpenRedis } from '../support/redis-clients.ts'

const REPLAY_MS = 500
const server = await lateServer('valkey')

describe.skipIf(isMissing(server))('a server that can expire single fields', () => {
  let open: OpenRedis
  beforeAll(async () => {
    open = await openRedis('node-redis', 'valkey', isMissing(server) ? '' : server.url)
  })
  afterAll(() => open.close())

  test('a retry that saw the record shortly before its expiry still reads the answer', async () => {
    const store = redisStore(open.client)
    const claim = claimOf(newKey(), 1, { replayForMs: REPLAY_MS })
    await finishOne(store, claim)
    const { view } = await store.leases.claim(leaseOf(claim))
    expect(view.record?.expiresInMs).toBeGreaterThan(0)
    await pass(REPLAY_MS)
    const { record, answer } = await store.read({ id: claim.id })
    expect(record?.expiresInMs).toBeLessThanOrEqual(0)
    expect(answer).toMatchObject({ status: 200 })
  })
})
