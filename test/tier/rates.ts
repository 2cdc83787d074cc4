import { Redis } from 'ioredis'
import { redisCache } from '../../src/tier/redis-cache.ts'
import type { CacheServer } from '../../src/tier/cache-server.ts'
import { openShop } from './shop.ts'

const CALLERS = 32
const ROUNDS = 9

export interface TierRates {
  /** Replays per second of a cold process with 32 callers: from the database, and from Redis. */
  readonly database: number
  readonly tier: number
  /** The share of them that Redis answered. */
  readonly hits: number
  readonly tierOfDatabase: number
  /** CPU time of the process for one replay from Redis, compared with the database alone. */
  readonly tierCpu: number
  /** The same while Redis does not answer. Compared with the database in the same round. */
  readonly stopped: number
  readonly stoppedOfDatabase: number
  /** CPU time of the process for one replay while Redis does not answer, compared with the database alone. */
  readonly stoppedCpu: number
}

/**
 * Replays each key once per process, so that no process knows an answer already. The kinds take turns, and the medians
 * of the rounds count.
 */
export async function tierRates(params: {
  readonly database: string
  readonly redis: string
  readonly keys: number
}): Promise<TierRates> {
  const client = new Redis(params.redis, { retryStrategy: () => 20, maxRetriesPerRequest: 1 })
  client.on('error', () => {})
  // A cache needs no persistence.
  await client.config('SET', 'appendonly', 'no')
  const pid = Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1])
  const cache = redisCache(client)
  const names = Array.from({ length: params.keys }, (_, n) => `rate-${n}`)
  const measure = (of: CacheServer | null): Promise<Measured> => replays(params.database, of, names)
  const rounds: Record<'database' | 'tier' | 'hits' | 'tierCpu' | 'stopped' | 'stoppedCpu', number>[] = []
  try {
    // The first round fills the cache.
    await measure(cache)
    for (let n = 0; n < ROUNDS; n++) {
      const { rate: database, cpuUs } = await measure(null)
      const { rate: tier, hits, cpuUs: tierUs } = await measure(cache)
      process.kill(pid, 'SIGSTOP')
      const { rate: stopped, cpuUs: stoppedUs } = await measure(cache).finally(() => process.kill(pid, 'SIGCONT'))
      await client.ping()
      rounds.push({ database, tier, hits, tierCpu: tierUs / cpuUs, stopped, stoppedCpu: stoppedUs / cpuUs })
    }
  } finally {
    client.disconnect()
  }
  return {
    database: median(rounds.map((of) => of.database)),
    tier: median(rounds.map((of) => of.tier)),
    hits: median(rounds.map((of) => of.hits)),
    stopped: median(rounds.map((of) => of.stopped)),
    tierOfDatabase: median(rounds.map(({ tier, database }) => tier / database)),
    tierCpu: median(rounds.map((of) => of.tierCpu)),
    stoppedOfDatabase: median(rounds.map(({ stopped, database }) => stopped / database)),
    stoppedCpu: median(rounds.map((of) => of.stoppedCpu)),
  }
}

interface Measured {
  readonly rate: number
  readonly hits: number
  readonly cpuUs: number
}

/** A new process: its memory is empty, and its connections are open before the measurement. */
async function replays(database: string, cache: CacheServer | null, names: readonly string[]): Promise<Measured> {
  const shop = openShop(database, cache)
  const charge = (key: string): Promise<unknown> =>
    shop.charge(key, { replayFor: '1h', fails: false, ran: () => undefined })
  try {
    const warm = Array.from({ length: CALLERS * 4 }, (_, n) => `warm-${n}`)
    await each(warm, charge)
    const [startedAt, before, cpu] = [performance.now(), shop.hits(), process.cpuUsage()]
    await each(names, charge)
    const rate = (names.length / (performance.now() - startedAt)) * 1_000
    const { user, system } = process.cpuUsage(cpu)
    return { rate, hits: (shop.hits() - before) / names.length, cpuUs: (user + system) / names.length }
  } finally {
    await shop.close()
  }
}

async function each(names: readonly string[], charge: (key: string) => Promise<unknown>): Promise<void> {
  let next = 0
  const caller = async (): Promise<void> => {
    for (let name = names[next++]; name !== undefined; name = names[next++]) await charge(name)
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
