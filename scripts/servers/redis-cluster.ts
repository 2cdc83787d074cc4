import { Redis } from 'ioredis'
import { debianBinary } from './debian.ts'
import { freePort, run, untilReady } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { startRedisNode } from './redis.ts'

const NODES = 6
const CREATE_MS = 60_000
const SYNC_MS = 60_000
/** A dead primary is replaced after about this time. */
const NODE_TIMEOUT_MS = 2_000

/** Three primaries with one replica each. A client finds all nodes through the address of one. */
export interface RedisCluster extends RunningServer {
  readonly nodes: readonly RunningServer[]
}

export const redisClusterRecipe: ServerRecipe = {
  name: 'redisCluster',
  environmentVariable: 'REDIS_CLUSTER_URL',
  ways: [{ name: 'debian', start: startRedisCluster }],
}

export async function startRedisCluster(): Promise<RedisCluster> {
  const cli = await debianBinary('redis-cli', 'redis-tools')
  const nodes: RunningServer[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.splice(0).map((node) => node.stop()))
  }
  try {
    for (let i = 0; i < NODES; i++) nodes.push(await startClusterNode())
    const addresses = nodes.map(({ url }) => new URL(url).host)
    await run(cli, ['--cluster', 'create', ...addresses, '--cluster-replicas', '1', '--cluster-yes'], {
      timeoutMs: CREATE_MS,
    })
    await untilReady(() => inSync(nodes), { timeoutMs: SYNC_MS, ended: () => undefined })
    return { url: nodes[0]?.url ?? '', nodes: [...nodes], stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startClusterNode(): Promise<RunningServer> {
  // By default the cluster's own port is 10,000 higher, and may not exist.
  const settings = {
    'cluster-enabled': 'yes',
    'cluster-node-timeout': String(NODE_TIMEOUT_MS),
    'cluster-port': String(await freePort()),
    'repl-diskless-sync-delay': '0',
  }
  return startRedisNode(Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]))
}

/** Rejects until every node knows all slots, and every replica follows its primary. */
export async function inSync(nodes: readonly RunningServer[]): Promise<void> {
  for (const { url } of nodes) {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
    client.on('error', () => {})
    try {
      await client.connect()
      const state = await client.cluster('INFO')
      if (!/cluster_state:ok/.test(state)) throw new Error(`${url} does not know all slots`)
      const replication = await client.info('replication')
      if (!/role:master[^]*connected_slaves:1[^]*state=online|role:slave[^]*master_link_status:up/.test(replication)) {
        throw new Error(`${url} is not in sync`)
      }
    } finally {
      client.disconnect()
    }
  }
}
