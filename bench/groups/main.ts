import type pg from 'pg'
import { atomic, atomicNoEvent } from '../scenarios/atomic.ts'
import { bare3, bare4 } from '../scenarios/bare.ts'
import { batched, batched128, batchedPoison } from '../scenarios/batched.ts'
import { handFive, handOne, handPipelined, handSix } from '../scenarios/by-hand.ts'
import { leased } from '../scenarios/leased.ts'
import { replayCache, replayDatabase } from '../scenarios/replay.ts'
import { createDatabase, openOnce, openPool } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import { meterCpu } from '../support/cpu.ts'
import { foundAgainst, measureRounds } from '../support/measure.ts'
import type { Scenario } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

export interface Means {
  readonly plain: pg.Pool
  readonly pipelined: pg.Pool
  readonly once: BenchOnce
}

export type Maker = (means: Means) => Scenario | Promise<Scenario>

/** What the others are told against: the same statements as ours around the same charge, prepared as ours are. */
export const BASE = 'bare4Prepared'
const BASE_WITHOUT_EVENT = 'bare3Prepared'
const WITHOUT_EVENT: ReadonlySet<string> = new Set([
  'bare3',
  'bare3Prepared',
  'handFive',
  'handFivePrepared',
  'handPipelinedNoEvent',
  'handPipelinedNoEventUnprepared',
  'atomicNoEvent',
])

/** Everything that is measured on PostgreSQL in this process. */
export const MAIN: Readonly<Record<string, Maker>> = {
  bare4: ({ plain }) => bare4(plain, 'unprepared'),
  bare4Prepared: ({ plain }) => bare4(plain, 'prepared'),
  bare3: ({ plain }) => bare3(plain, 'unprepared'),
  bare3Prepared: ({ plain }) => bare3(plain, 'prepared'),
  handSix: ({ plain }) => handSix(plain, 'unprepared'),
  handSixPrepared: ({ plain }) => handSix(plain, 'prepared'),
  handFive: ({ plain }) => handFive(plain, 'unprepared'),
  handFivePrepared: ({ plain }) => handFive(plain, 'prepared'),
  handOne: ({ plain }) => handOne(plain, 'unprepared'),
  handOnePrepared: ({ plain }) => handOne(plain, 'prepared'),
  handPipelined: ({ pipelined }) => handPipelined(pipelined, 'prepared', true),
  handPipelinedUnprepared: ({ pipelined }) => handPipelined(pipelined, 'unprepared', true),
  handPipelinedNoEvent: ({ pipelined }) => handPipelined(pipelined, 'prepared', false),
  handPipelinedNoEventUnprepared: ({ pipelined }) => handPipelined(pipelined, 'unprepared', false),
  atomic: ({ once }) => atomic(once),
  atomicNoEvent: ({ once }) => atomicNoEvent(once),
  leased: ({ once }) => leased(once),
  batched: ({ once }) => batched(once),
  batched128: ({ once }) => batched128(once),
  batchedPoison: ({ once }) => batchedPoison(once),
  replayDatabase: ({ once }) => replayDatabase(once),
  replayCache: ({ once }) => replayCache(once),
}

export const baseOf = (name: string): string => (WITHOUT_EVENT.has(name) ? BASE_WITHOUT_EVENT : BASE)

export async function measureMain(bench: Bench): Promise<Found> {
  const url = await createDatabase(bench.serverUrl, 'bench_main')
  const wanted = Object.keys(MAIN).filter((name) => bench.wants(name))
  const needed = new Set([...wanted.map(baseOf), ...wanted])
  return measureAgainstBare(
    bench,
    url,
    Object.keys(MAIN).filter((name) => needed.has(name)),
  )
}

export async function measureAgainstBare(bench: Bench, url: string, names: readonly string[]): Promise<Found> {
  const plain = openPool(url)
  const pipelined = openPool(url, { pipeline: true })
  const ours = openPool(url)
  const cached = openPool(url)
  const once = await openOnce(ours)
  // The cache of this one is left alone.
  const remembering = await openOnce(cached)
  try {
    const scenarios: Scenario[] = []
    for (const name of names) {
      const make = MAIN[name] as Maker
      scenarios.push(await make({ plain, pipelined, once: name === 'replayCache' ? remembering : once }))
    }
    const cpu = await meterCpu(process.pid, bench.serverUrl)
    const measured = await measureRounds(scenarios, { ...bench.options, cpu, progress: bench.progress })
    return foundAgainst(measured, baseOf)
  } finally {
    await once.close()
    await remembering.close()
    await Promise.all([plain.end(), pipelined.end(), ours.end(), cached.end()])
  }
}
