import { commitToSend, firstOfQuiet, percentile, writeForLong } from '../scenarios/relay-latency.ts'
import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import { median } from '../support/measure.ts'
import type { Bench } from './group.ts'
import { measureRates, type FoundRates } from './relay-rates.ts'

export interface FoundRelay extends FoundRates {
  readonly latencyMs: Record<string, number>
}

const SECONDS = 5
const SECONDS_QUICK = 2
const QUIET_TIMES = 8
const QUIET_TIMES_QUICK = 3

/** How much a relay sends, and how long an event waits for it. */
export async function measureRelay(bench: Bench): Promise<FoundRelay> {
  const rates = await measureRates(bench)
  return { ...rates, latencyMs: { ...(await measureSteady(bench)), ...(await measureQuiet(bench)) } }
}

/** 1,000 events per second, each with a commit of its own; again while somebody else's transaction writes for 500 ms. */
async function measureSteady(bench: Bench): Promise<Record<string, number>> {
  const url = await createDatabase(bench.serverUrl, 'bench_relay_steady')
  const pool = openPool(url)
  const once = await openOnce(pool)
  const ms = (bench.options.quick ? SECONDS_QUICK : SECONDS) * 1000
  try {
    const alone = await commitToSend(once, 'alone', ms)
    const stop = await writeForLong(url)
    const beside = await commitToSend(once, 'beside a writer', ms)
    await stop()
    bench.progress(`${alone.length + beside.length} events at a steady rate`)
    return {
      commitToSendP50Ms: percentile(alone, 0.5),
      commitToSendP99Ms: percentile(alone, 0.99),
      commitToSendBesideWriterP99Ms: percentile(beside, 0.99),
    }
  } finally {
    await once.close()
    await pool.end()
    await onServer(bench.serverUrl, 'drop database bench_relay_steady with (force)')
  }
}

/** The first event after a quiet time, published by another instance than the relay's. */
async function measureQuiet(bench: Bench): Promise<Record<string, number>> {
  const url = await createDatabase(bench.serverUrl, 'bench_relay_quiet')
  const pools = [openPool(url), openPool(url)] as const
  const found: Record<string, number> = {}
  const times = bench.options.quick ? QUIET_TIMES_QUICK : QUIET_TIMES
  try {
    for (const listen of [false, true]) {
      const [relaying, publishing] = await Promise.all(pools.map((pool) => openOnce(pool, { listen })))
      if (!relaying || !publishing) throw new Error('two instances')
      const waits = await firstOfQuiet(relaying, publishing, times)
      const name = listen ? 'quietListen' : 'quiet'
      found[`${name}MedianMs`] = median(waits)
      found[`${name}MaxMs`] = Math.max(...waits)
      await relaying.close()
      await publishing.close()
    }
    return found
  } finally {
    for (const pool of pools) await pool.end()
    await onServer(bench.serverUrl, 'drop database bench_relay_quiet with (force)')
  }
}
