/**
 * Calls fresh and completed operations on a tiered store, while Redis is flushed, restarted, restored from an old dump,
 * stopped and slowed. Prints the counts and the rates, and fails when a guarantee was violated.
 *
 * npm run chaos:tier -- [--replays N] [--fresh M] [--rates K] [--seed S] [--minutes T] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startAlone, startServers } from './servers/index.ts'
import type { Halting } from '../test/broker/support/describe-broker.ts'
import { tierChaos } from '../test/tier/chaos.ts'
import { tierRates } from '../test/tier/rates.ts'

const MINUTE_MS = 60_000
const TIER_MIN = 2
const STOPPED_MIN = 0.95

async function main(): Promise<number> {
  const counts = {
    replays: [100_000, 1],
    fresh: [10_000, 1],
    rates: [5_000, 0],
    seed: [1, 0],
    minutes: [60, 1],
  } as const
  const { replays, fresh, rates: keys, seed, minutes, json } = readCounts(counts)
  const servers = await startServers(['postgres'])
  const redis = await startAlone('redis')
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    if ('missing' in redis) throw new Error(`no Redis: ${redis.missing}`)
    const { url: database } = servers.postgres
    if (!json) console.error(`${replays} replays and ${fresh} fresh operations, seed ${seed}`)
    const size = { replays, fresh, seed, timeoutMs: minutes * MINUTE_MS }
    const result = await tierChaos({ database, redis: redis as Halting, ...size })
    const rates = keys === 0 ? null : await tierRates({ database, redis: redis.url, keys })
    console.log(json ? JSON.stringify({ ...result, rates }) : { ...result, rates })
    const { wrong, unreal, twice, lost } = result
    const slow = rates !== null && rates.tierOfDatabase < TIER_MIN ? 1 : 0
    const costly = rates !== null && rates.stoppedOfDatabase < STOPPED_MIN ? 1 : 0
    const broken = {
      'wrong answers': wrong,
      'answers of rolled-back transactions': unreal,
      'second effects': twice,
      lost,
      'run that was not over in time': result.replays < replays || result.fresh < fresh ? 1 : 0,
    }
    return judged({
      ...broken,
      [`rate below ${TIER_MIN} of the database`]: slow,
      [`rate below ${STOPPED_MIN} without Redis`]: costly,
    })
  } finally {
    await servers.stop()
    if (!('missing' in redis)) await redis.stop()
  }
}

process.exitCode = await main()
