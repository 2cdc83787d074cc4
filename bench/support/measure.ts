import type { Found } from '../groups/group.ts'
import { NO_CPU, perOperation, sumOf, type Cpu, type CpuMeter } from './cpu.ts'

/** Something that can be done again and again, by many callers at once. */
export interface Scenario {
  readonly name: string
  readonly callers: number
  /** One operation, start to end. */
  operate(): Promise<unknown>
  close?(): Promise<void>
}

export interface Sample {
  readonly operations: number
  readonly seconds: number
}

export interface RoundsOptions {
  readonly rounds: number
  readonly seconds: number
  readonly cpu?: CpuMeter
  progress(text: string): void
}

/** Operations per second of every scenario, one figure per round. */
export type Rates = ReadonlyMap<string, readonly number[]>

export interface Measured {
  readonly rates: Rates
  /** CPU microseconds per operation, one figure per round; empty without a meter. */
  readonly cpu: ReadonlyMap<string, readonly Cpu[]>
}

/**
 * All scenarios in turn, round after round: what else the machine does meets all of them alike. Every round starts with
 * another scenario, and what it takes to warm up is not counted.
 */
export async function measureRounds(scenarios: readonly Scenario[], options: RoundsOptions): Promise<Measured> {
  const rates = new Map<string, number[]>(scenarios.map(({ name }) => [name, []]))
  const cpu = new Map<string, Cpu[]>(options.cpu ? scenarios.map(({ name }) => [name, []]) : [])
  const read = (): Cpu => options.cpu?.read() ?? NO_CPU
  for (const scenario of scenarios) await warmUp(scenario, options.seconds)
  for (let round = 0; round < options.rounds; round++) {
    for (let i = 0; i < scenarios.length; i++) {
      const scenario = scenarios[(i + round) % scenarios.length] as Scenario
      const before = read()
      const { operations, seconds } = await sample(scenario, options.seconds)
      rates.get(scenario.name)?.push(operations / seconds)
      cpu.get(scenario.name)?.push(perOperation(before, read(), operations))
    }
    options.progress(`round ${round + 1} of ${options.rounds}`)
  }
  return { rates, cpu }
}

/** The median operation of each scenario. */
export function medianCpu(cpu: Measured['cpu']): Record<string, Cpu> {
  const medians = [...cpu].map(([name, all]): [string, Cpu] => [
    name,
    { process: median(all.map((one) => one.process)), server: median(all.map((one) => one.server)) },
  ])
  return Object.fromEntries(medians)
}

export async function sample(scenario: Scenario, seconds: number): Promise<Sample> {
  const startedAt = performance.now()
  const until = startedAt + seconds * 1000
  let operations = 0
  const caller = async (): Promise<void> => {
    while (performance.now() < until) {
      await scenario.operate()
      operations += 1
    }
  }
  await Promise.all(Array.from({ length: scenario.callers }, caller))
  return { operations, seconds: (performance.now() - startedAt) / 1000 }
}

/** By operations, not by time: a slow scenario needs as many as a quick one until its code is compiled. */
const WARM_UP = 3000

async function warmUp(scenario: Scenario, seconds: number): Promise<void> {
  await repeat(scenario, Math.ceil(WARM_UP * Math.min(seconds, 1)))
}

/** Exactly so many operations. */
export async function repeat(scenario: Scenario, times: number): Promise<void> {
  let left = times
  const caller = async (): Promise<void> => {
    while (left-- > 0) await scenario.operate()
  }
  await Promise.all(Array.from({ length: scenario.callers }, caller))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Medians, and every ratio to its base: of rates, and of CPU per operation, process plus server. */
export function foundAgainst(
  { rates, cpu }: Measured,
  baseOf: (name: string) => string,
  more: readonly (readonly [string, string])[] = [],
): Found {
  const found = {
    ratios: {} as Record<string, number>,
    cpuRatios: {} as Record<string, number>,
    rates: {} as Record<string, number>,
    cpu: medianCpu(cpu),
  }
  const sums = new Map([...cpu].map(([name, all]) => [name, all.map(sumOf)]))
  for (const [name, values] of rates) found.rates[name] = median(values)
  const pairs = [...[...rates.keys()].map((name) => [name, baseOf(name)] as const), ...more]
  for (const [name, base] of pairs) {
    const [toBase, cpuToBase] = [ratio(rates, name, base), ratio(sums, name, base)]
    if (name === base || toBase === undefined) continue
    found.ratios[`${name}/${base}`] = toBase
    if (cpuToBase !== undefined) found.cpuRatios[`${name}/${base}`] = cpuToBase
  }
  return found
}

/** The median of each round's own ratio: both figures of a round met the same machine. */
export function ratio(rates: Rates, name: string, base: string): number | undefined {
  const [above, below] = [rates.get(name), rates.get(base)]
  if (!above || !below) return undefined
  return median(above.map((rate, round) => rate / (below[round] ?? Number.NaN)))
}

/** 10k, 1M, 10M. */
export function shortNumber(value: number): string {
  if (value % 1_000_000 === 0) return `${value / 1_000_000}M`
  return value % 1000 === 0 ? `${value / 1000}k` : String(value)
}
