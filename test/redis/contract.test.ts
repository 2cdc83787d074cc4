import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isMissing } from '../../scripts/servers/index.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { storeContract } from '../../src/testing/contract/store-contract.ts'
import { ASKED_OF_LEASES as ASKED } from './asked.ts'
import { lateServer } from '../support/late-servers.ts'
import { openRedis, REDIS_CLIENTS, type OpenRedis } from '../support/redis-clients.ts'

for (const kind of ['redisCluster', 'redisSentinel', 'valkey'] as const) {
  const server = await lateServer(kind)
  for (const of of REDIS_CLIENTS) {
    describe.skipIf(isMissing(server))(`the leased contract on ${kind}, ${of}`, () => {
      let open: OpenRedis
      beforeAll(async () => {
        open = await openRedis(of, kind, isMissing(server) ? '' : server.url)
      })
      afterAll(() => open.close())

      for (const replicas of kind === 'valkey' ? [0] : [0, 1]) {
        const make = async () => ({ store: redisStore(open.client, { replicas }), close: async () => {} })
        for (const { name, run } of storeContract(make)) {
          if (ASKED.includes(name))
            test(`${name} (replicas: ${replicas})`, async () => expect(await run()).toBeUndefined())
        }
      }
    })
  }
}
