import type pg from 'pg'
import { atomic } from '../scenarios/atomic.ts'
import { bare4 } from '../scenarios/bare.ts'
import { batched, batched128, batchedPoison } from '../scenarios/batched.ts'
import { handOne, handSix } from '../scenarios/by-hand.ts'
import { leased } from '../scenarios/leased.ts'
import { replayCache, replayDatabase } from '../scenarios/replay.ts'
import { createDatabase, openOnce, openPool } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import { meterCpu } from '../support/cpu.ts'
import { measureRounds, median, medianCpu, ratio } from '../support/measure.ts'
import type { Measured, Scenario } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

type Maker = (plain: pg.Pool, once: BenchOnce) => Scenario | Promise<Scenario>

/** Everything that is measured against `bare4` on PostgreSQL. */
export const MAIN: Readonly<Record<string, Maker>> = {
  bare4: (plain) => bare4(plain),
  bare4Prepared: (plain) => bare4(plain, 'prepared'),
  handSix: (plain) => handSix(plain),
  handSixPrepared: (plain) => handSix(plain, 'prepared'),
  handOne: (plain) => handOne(plain),
  handOnePrepared: (plain) => handOne(plain, 'prepared'),
  atomic: (_, once) => atomic(once),
  leased: (_, once) => leased(once),
  batched: (_, once) => batched(once),
  batched128: (_, once) => batched128(once),
  batchedPoison: (_, once) => batchedPoison(once),
  replayDatabase: (_, once) => replayDatabase(once),
  replayCache: (_, once) => replayCache(once),
}

export async function measureMain(bench: Bench): Promise<Found> {
  const url = await createDatabase(bench.serverUrl, 'bench_main')
  const names = Object.keys(MAIN).filter((name) => name === 'bare4' || bench.wants(name))
  return measureAgainstBare(bench, url, names)
}

export async function measureAgainstBare(bench: Bench, url: string, names: readonly string[]): Promise<Found> {
  const plain = openPool(url)
  const ours = openPool(url)
  const cached = openPool(url)
  const once = await openOnce(ours)
  // The cache of this one is left alone.
  const remembering = await openOnce(cached)
  try {
    const scenarios: Scenario[] = []
    for (const name of names) {
      const make = MAIN[name] as Maker
      scenarios.push(await make(plain, name === 'replayCache' ? remembering : once))
    }
    const cpu = await meterCpu(process.pid, bench.serverUrl)
    return foundIn(await measureRounds(scenarios, { ...bench.options, cpu, progress: bench.progress }))
  } finally {
    await once.close()
    await remembering.close()
    await Promise.all([plain.end(), ours.end(), cached.end()])
  }
}

function foundIn({ rates, cpu }: Measured): Found {
  const ratios: Record<string, number> = {}
  const medians: Record<string, number> = {}
  for (const [name, values] of rates) {
    medians[name] = median(values)
    for (const base of ['bare4', 'bare4Prepared']) {
      const toBase = ratio(rates, name, base)
      if (name !== base && toBase !== undefined) ratios[`${name}/${base}`] = toBase
    }
  }
  return { ratios, rates: medians, cpu: medianCpu(cpu) }
}
