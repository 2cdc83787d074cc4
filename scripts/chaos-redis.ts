/**
 * The long runs of the Redis store on real servers. Each run prints its counts, and fails when a guarantee was violated.
 *
 * npm run chaos:redis -- [--only processes|cluster|cut|lost] [--rounds N] [--calls N]
 *     processes: 200 callers of one key in 4 processes, SIGKILL at every crash point, SIGSTOP past the lease.
 *     cluster: failovers, killed primaries and moved slots beneath a running operation, with `replicas: 1`.
 *     cut: the link to the replica is cut. With `replicas: 1` every call is refused, and none runs twice.
 *     lost: the same without `replicas`. It must show operations that ran twice, because Redis lost their claims.
 */
import { parseArgs } from 'node:util'
import { judged } from './chaos-run.ts'
import { startAlone } from './servers/index.ts'
import { startRedisCluster } from './servers/redis-cluster.ts'
import { clusterChaos } from '../test/redis/support/cluster-chaos.ts'
import { cutLink } from '../test/redis/support/cut-link.ts'
import { processChaos } from '../test/redis/support/process-chaos.ts'
import { REDIS_CLIENTS } from '../test/support/redis-clients.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    rounds: { type: 'string', default: '100' },
    calls: { type: 'string', default: '100' },
  },
})
const rounds = Number(values.rounds)
const calls = Number(values.calls)

const runs: Record<string, () => Promise<number>> = {
  async processes() {
    let code = 0
    for (const client of REDIS_CLIENTS) {
      const server = await startAlone('redis')
      if ('missing' in server) throw new Error(server.missing)
      try {
        const result = await processChaos({ url: server.url, server: 'redis', client, rounds: Math.ceil(rounds / 20) })
        console.log('processes', client, result)
        const { effects, answers, zombies } = result
        code |= judged({ 'not one effect': effects, 'different answers': answers, 'fenced holders completed': zombies })
      } finally {
        await server.stop()
      }
    }
    return code
  },
  async cluster() {
    const cluster = await startRedisCluster()
    try {
      const result = await clusterChaos(cluster.nodes, rounds)
      console.log('cluster', result)
      return judged({ 'second effects': result.effects, 'different answers': result.answers })
    } finally {
      await cluster.stop()
    }
  },
  async cut() {
    const result = await cutLink(calls, 1)
    console.log('cut, replicas: 1', result)
    return judged({ 'not refused': result.asked - result.refused, 'ran twice': result.twice })
  },
  async lost() {
    const result = await cutLink(calls, 0)
    console.log('cut, replicas: 0', result)
    console.log(
      `${result.twice} of ${result.asked} operations ran twice: Redis acknowledged their claims, and lost them`,
    )
    return judged({ 'experiments without a lost claim': result.twice === 0 ? 1 : 0 })
  },
}

const chosen = values.only === undefined ? Object.keys(runs) : [values.only]
let code = 0
for (const name of chosen) code |= (await runs[name]?.()) ?? 2
process.exitCode = code
