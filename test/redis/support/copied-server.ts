import { Redis } from 'ioredis'
import { startRedisNode } from '../../../scripts/servers/redis.ts'
import { until } from './cluster-control.ts'

const KEYS = 100
/** The copied server needs so long for each key of its own file. */
const KEY_US = 200_000

/**
 * A server is copied from a primary and promoted, then killed and started again, before its own file is complete.
 * Returns what it has after that of a write that it had acknowledged, with `appendfsync always`.
 */
export async function restartCopied(): Promise<string | null> {
  const [primary, copied] = await Promise.all([startRedisNode([]), startRedisNode([])])
  const [first, second] = [primary, copied].map(({ url }) => new Redis(url).on('error', () => {})) as [Redis, Redis]
  try {
    for (let i = 0; i < KEYS; i++) await first.set(`key-${i}`, i)
    await second.config('SET', 'rdb-key-save-delay', KEY_US)
    const { hostname, port } = new URL(primary.url)
    await second.replicaof(hostname, Number(port))
    await until(async () => /master_link_status:up/.test(await second.info('replication')))
    await second.call('REPLICAOF', 'NO', 'ONE')
    await second.set('claim', 'acknowledged')
    await copied.halt?.('SIGKILL')
    await copied.resume?.()
    return await second.get('claim')
  } finally {
    first.disconnect()
    second.disconnect()
    await Promise.all([primary.stop(), copied.stop()])
  }
}
