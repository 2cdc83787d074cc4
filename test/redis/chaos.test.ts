import { describe, expect, inject, test } from 'vitest'
import { startRedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { clusterChaos } from './support/cluster-chaos.ts'
import { restartCopied } from './support/copied-server.ts'
import { cutLink } from './support/cut-link.ts'
import { processChaos } from './support/process-chaos.ts'

const TIMEOUT_MS = 600_000
const ROUNDS = 6
const CALLS = 8

const server = inject('servers').redis
/** A server from elsewhere cannot be killed, so there may be no binary here. */
const isOurs = 'url' in server && server.from === 'debian'

/** The same runs in full size: npm run chaos:redis */
describe.skipIf(!isOurs)('chaos on Redis', { timeout: TIMEOUT_MS }, () => {
  test('races, SIGKILL at every crash point, SIGSTOP past the lease', async () => {
    const url = 'url' in server ? server.url : ''
    const { operations, ...broken } = await processChaos({ url, server: 'redis', client: 'node-redis', rounds: 1 })
    expect(broken).toEqual({ effects: 0, answers: 0, zombies: 0 })
    // A stop that came too late is tried again with another operation.
    expect(operations).toBeGreaterThanOrEqual(12)
  })

  test('a failover, a killed primary and a moved slot beneath a running operation: one effect', async () => {
    const cluster = await startRedisCluster()
    try {
      const { effects, answers, kills, moves } = await clusterChaos(cluster.nodes, ROUNDS)
      expect({ effects, answers, kills, moves }).toEqual({ effects: 0, answers: 0, kills: 1, moves: 3 })
    } finally {
      await cluster.stop()
    }
  })

  test('with the link to the replica cut, replicas: 1 refuses every call', async () => {
    expect(await cutLink(CALLS, 1)).toEqual({ asked: CALLS, refused: CALLS, before: 0, twice: 0 })
  })

  test('without replicas the failover loses acknowledged claims, as the docs say', async () => {
    expect(await cutLink(CALLS, 0)).toEqual({ asked: CALLS, refused: 0, before: CALLS, twice: CALLS })
  })

  test('a promoted server that restarts before its file is complete loses what it acknowledged, as the docs say', async () => {
    expect(await restartCopied()).toBeNull()
  })
})
