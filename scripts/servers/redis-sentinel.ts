import { debianBinary, unprivileged } from './debian.ts'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { untilReady } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { redisWire, startRedisNode } from './redis.ts'
import { start } from './simple.ts'
import { give } from './start-kept.ts'

const SENTINELS = 3
const SYNC_MS = 30_000
/** The name of the primary among its sentinels. */
export const SENTINEL_MASTER = 'effectively-once'

/** A primary with one replica, watched by three sentinels. The address is that of the first sentinel. */
export interface RedisSentinel extends RunningServer {
  readonly sentinels: readonly RunningServer[]
  readonly primary: RunningServer
  readonly replica: RunningServer
}

export const redisSentinelRecipe: ServerRecipe = {
  name: 'redisSentinel',
  environmentVariable: 'REDIS_SENTINEL_URL',
  ways: [{ name: 'debian', start: startRedisSentinel }],
}

export async function startRedisSentinel(): Promise<RedisSentinel> {
  const running: RunningServer[] = []
  const started = async (server: Promise<RunningServer>): Promise<RunningServer> => {
    const made = await server
    running.push(made)
    return made
  }
  const stop = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((server) => server.stop()))
  }
  try {
    const primary = await started(startRedisNode(['--repl-diskless-sync-delay', '0']))
    const { hostname, port } = new URL(primary.url)
    const replica = await started(startRedisNode(['--replicaof', hostname, port, '--repl-diskless-sync-delay', '0']))
    const sentinels: RunningServer[] = []
    for (let i = 0; i < SENTINELS; i++) sentinels.push(await started(startSentinel(port)))
    for (const { url } of sentinels) {
      await untilReady(() => knowsAll(url), { timeoutMs: SYNC_MS, ended: () => undefined })
    }
    return { url: sentinels[0]?.url ?? '', sentinels, primary, replica, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startSentinel(primaryPort: string): Promise<RunningServer> {
  const command = await debianBinary('redis-server', 'redis-server')
  const owner = await unprivileged()
  return start(redisWire, owner, async (port, data) => {
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      'protected-mode no',
      `dir ${data}`,
      `sentinel monitor ${SENTINEL_MASTER} 127.0.0.1 ${primaryPort} 2`,
      `sentinel down-after-milliseconds ${SENTINEL_MASTER} 1000`,
      `sentinel failover-timeout ${SENTINEL_MASTER} 5000`,
    ]
    // A sentinel writes what it learns into this file.
    const file = await give(join(data, 'sentinel.conf'), `${lines.join('\n')}\n`, owner)
    return { command, args: [file, '--sentinel'] }
  })
}

/** Rejects until a sentinel knows the replica and the other sentinels, without which it cannot replace the primary. */
async function knowsAll(url: string): Promise<void> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    const info = await client.info('sentinel')
    if (!/status=ok.*slaves=1,sentinels=3/.test(info)) throw new Error(`${url} does not know all servers`)
  } finally {
    client.disconnect()
  }
}
