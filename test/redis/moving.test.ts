import { Cluster } from 'ioredis'
import { describe, expect, inject, test } from 'vitest'
import { startRedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { answerOf, claimOf, leaseOf, newKey, pass, winLease } from '../../src/testing/contract/make.ts'
import { ClusterControl } from './support/cluster-control.ts'

const server = inject('servers').redis
const isOurs = 'url' in server && server.from === 'debian'

/** A script that deletes the key cannot write it again there, and its deletion stays. */
describe.skipIf(!isOurs)('a slot that is being moved, with the key still at its old place', () => {
  test('a record with steps is completed, and a completed one gets a new life', { timeout: 120_000 }, async () => {
    const cluster = await startRedisCluster()
    const control = new ClusterControl(cluster.nodes.map(({ url }) => Number(new URL(url).port)))
    const { hostname: host, port } = new URL(cluster.url)
    const client = new Cluster([{ host, port: Number(port) }])
    client.on('error', () => {})
    try {
      await control.settled()
      const store = redisStore(client)
      const claim = claimOf(newKey(), 1, { replayForMs: 1, goneForMs: 0 })
      const { id } = claim
      const { token, life } = await winLease(store, claim)
      await store.leases.finishStep({ id, token, life, name: 'pay', result: '1' })
      await control.beginMove(`effectively-once:{${id}}`)
      expect(await store.leases.finish({ id, token, claim, answer: answerOf('1') })).toBe(true)
      await pass(10)
      const { record: seen } = await store.read({ id })
      expect(seen).toMatchObject({ state: 'completed', life })
      expect(await store.leases.takeOver({ ...leaseOf(claim), seen: seen! })).toMatchObject({ attempt: 1 })
    } finally {
      client.disconnect()
      control.close()
      await cluster.stop()
    }
  })
})
