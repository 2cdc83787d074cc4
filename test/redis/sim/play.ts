import type { Mutant } from './mutants.ts'
import { FAULT_KINDS, World, type Fault, type Outcome } from './world.ts'

export interface Played {
  readonly schedules: number
  readonly effects: number
  readonly faults: Readonly<Record<Fault, number>>
  readonly broken: readonly { readonly seed: number; readonly violations: readonly string[] }[]
}

export interface Hunt {
  readonly name: string
  /** The first seed that violates a rule, and the violation. Null: the mutant survived. */
  readonly seed: number | null
  readonly broke: string | null
}

export function runSchedule(seed: number, mutant: Mutant | null = null): Promise<Outcome> {
  return new World(seed, mutant).run()
}

export async function playRedis(from: number, schedules: number): Promise<Played> {
  const faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<Fault, number>
  const broken: { seed: number; violations: readonly string[] }[] = []
  let effects = 0
  for (let seed = from; seed < from + schedules; seed++) {
    const outcome = await runSchedule(seed)
    effects += outcome.effects
    for (const kind of FAULT_KINDS) faults[kind] += outcome.faults[kind]
    if (outcome.violations.length > 0) broken.push({ seed, violations: outcome.violations })
  }
  return { schedules, effects, faults, broken }
}

export async function huntRedis(mutant: Mutant, schedules: number): Promise<Hunt> {
  const { name, seed: from = 1 } = mutant
  for (let seed = from; seed < from + schedules; seed++) {
    const [broke] = (await runSchedule(seed, mutant)).violations
    if (broke !== undefined) return { name, seed, broke }
  }
  return { name, seed: null, broke: null }
}
