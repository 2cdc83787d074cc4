import { baseOf, MAIN, type Maker, type Means } from '../groups/main.ts'
import { newKeysInOrder } from '../support/charge.ts'
import { countCost, flushStatistics, withQuietWal, type Cost } from '../support/costs.ts'
import { meterCpu, perOperation, sumOf, type CpuMeter } from '../support/cpu.ts'
import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import { median, repeat, type Scenario } from '../support/measure.ts'
import type { BenchServer } from '../support/server.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { Entries } from './entry.ts'

export interface Measured {
  /** How many go at once while they are counted: a batch is counted whole. */
  readonly atOnce: number
  /** Operations in one round: more of the cheap ones, so that each takes about as long. */
  readonly slice: number
}

/** Ours, each a name of `MAIN`. */
export const OPERATIONS: Readonly<Record<string, Measured>> = {
  atomic: { atOnce: 1, slice: 256 },
  atomicNoEvent: { atOnce: 1, slice: 256 },
  leased: { atOnce: 1, slice: 128 },
  batched: { atOnce: 32, slice: 1024 },
  replayDatabase: { atOnce: 1, slice: 1024 },
  replayCache: { atOnce: 1, slice: 4096 },
}

const COUNTED = 512
const WARM_UP = 1000
const BASE_SLICE = 512

export interface LedgerOptions {
  readonly rounds: number
  /** Of `OPERATIONS`; all by default. */
  readonly only?: readonly string[]
  /** Puts something around each operation of ours: how the tests show what is noticed. */
  burden?(operate: () => Promise<unknown>, means: Means): Promise<unknown>
}

export type LedgerServer = Pick<BenchServer, 'url' | 'isOurs'>
export type Named = ReadonlyMap<string, Scenario>

export async function measureEntries(server: LedgerServer, options: LedgerOptions): Promise<Entries> {
  const costs = await withQuietWal(server, () => inDatabase(server, 'ledger_counts', (url) => countAll(url, options)))
  const ratios = await measureCpu(server, options)
  return Object.fromEntries(
    [...costs].map(([name, { statements, trips, rowsWritten, walBytes }]) => {
      const entry = { statements, trips, rows: rowsWritten, walBytes, cpuToBare: ratios.get(name) ?? Number.NaN }
      return [name, entry]
    }),
  )
}

/** The median over the rounds of each operation's CPU to its base's, all in turn. */
export function measureCpu(server: LedgerServer, options: LedgerOptions): Promise<ReadonlyMap<string, number>> {
  return inDatabase(server, 'ledger_cpu', async (url) => {
    const meter = await meterCpu(process.pid, server.url)
    newKeysInOrder('measured')
    const { rounds } = options
    return withScenarios(url, options, (scenarios) =>
      inTurn(scenarios, { meter, rounds, operations: OPERATIONS, baseOf }),
    )
  })
}

async function inDatabase<T>(server: LedgerServer, name: string, work: (url: string) => Promise<T>): Promise<T> {
  const url = await createDatabase(server.url, name)
  try {
    return await work(url)
  } finally {
    await onServer(server.url, `drop database ${name} with (force)`)
  }
}

async function countAll(url: string, options: LedgerOptions): Promise<Map<string, Cost>> {
  const meter = await startWireMeter(url)
  newKeysInOrder('counted')
  try {
    return await withScenarios(meter.url, options, async (scenarios, flush) => {
      const costs = new Map<string, Cost>()
      for (const [name, { atOnce }] of operationsOf(options)) {
        const scenario = scenarios.get(name) as Scenario
        const repeatInWaves = (times: number): Promise<void> => inWaves(scenario, atOnce, times)
        const counting = { url, meter, warmUp: COUNTED, operations: COUNTED, repeat: repeatInWaves, flush }
        const cost = await countCost(counting)
        costs.set(name, { ...cost, statements: cents(cost.statements), trips: cents(cost.trips) })
      }
      return costs
    })
  } finally {
    await meter.close()
  }
}

async function withScenarios<T>(
  url: string,
  options: LedgerOptions,
  work: (scenarios: Named, flush: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const { burden } = options
  const [plain, pipelined, ours, cached] = [
    openPool(url),
    openPool(url, { pipeline: true }),
    openPool(url),
    openPool(url),
  ]
  const once = await openOnce(ours)
  const remembering = await openOnce(cached)
  const pools = [plain, pipelined, ours, cached]
  try {
    const scenarios = new Map<string, Scenario>()
    for (const name of new Set(operationsOf(options).flatMap(([name]) => [name, baseOf(name)]))) {
      const means = { plain, pipelined, once: name === 'replayCache' ? remembering : once }
      const scenario = await (MAIN[name] as Maker)(means)
      const heavier = { ...scenario, operate: () => burden?.(() => scenario.operate(), means) ?? scenario.operate() }
      scenarios.set(name, name in OPERATIONS ? heavier : scenario)
    }
    return await work(scenarios, () => Promise.all(pools.map(flushStatistics)))
  } finally {
    await once.close()
    await remembering.close()
    await Promise.all(pools.map((pool) => pool.end()))
  }
}

/** So many at once, and the next ones when all are done: a batch is counted whole. */
export async function inWaves({ operate }: Scenario, atOnce: number, times: number): Promise<void> {
  for (let done = 0; done < times; done += atOnce) await Promise.all(Array.from({ length: atOnce }, () => operate()))
}

interface Turns {
  readonly meter: CpuMeter
  readonly rounds: number
  readonly operations: Readonly<Record<string, Measured>>
  baseOf(name: string): string
}

/** The median over the rounds of each operation's CPU to its base's. */
export async function inTurn(
  scenarios: Named,
  { meter, rounds, operations, baseOf }: Turns,
): Promise<ReadonlyMap<string, number>> {
  const names = [...scenarios.keys()]
  const ratios = new Map<string, number[]>(names.filter((name) => name in operations).map((name) => [name, []]))
  for (const scenario of scenarios.values()) await repeat(scenario, WARM_UP)
  for (let round = 0; round < rounds; round++) {
    const used = new Map<string, number>()
    // Each round starts with another one, so that none always comes behind the same.
    for (const name of [...names.slice(round % names.length), ...names.slice(0, round % names.length)]) {
      const slice = operations[name]?.slice ?? BASE_SLICE
      const before = meter.read()
      await repeat(scenarios.get(name) as Scenario, slice)
      used.set(name, sumOf(perOperation(before, meter.read(), slice)))
    }
    for (const [name, all] of ratios) all.push((used.get(name) ?? Number.NaN) / (used.get(baseOf(name)) ?? Number.NaN))
  }
  return new Map([...ratios].map(([name, all]) => [name, Number(median(all).toPrecision(3))]))
}

function operationsOf({ only }: LedgerOptions): [string, Measured][] {
  return Object.entries(OPERATIONS).filter(([name]) => only?.includes(name) ?? true)
}

function cents(value: number): number {
  return Math.round(value * 100) / 100
}
