import { ANY } from '../plan.ts'
import type { Size } from '../plan.ts'
import { runSchedule } from '../run.ts'
import { apart } from '../workers.ts'
import type { Mutant, Wanted } from './mutant.ts'
import type { Patch } from './patches.ts'

export interface Hunt {
  readonly mutant: string
  /** The seed that revealed the mutant, and the violation. Both are null when the mutant survived. */
  readonly seed: number | null
  readonly broke: string | null
  readonly schedules: number
}

/** The range of seeds to search. */
export interface Hunting {
  readonly seed: number
  readonly schedules: number
}

/** Makes a compiled copy of the code with one patch applied. */
export type BuildPatched = (patch: Patch) => { entry(program: string): string; remove(): void }

/** A search for a world of the copy that violates an invariant. */
export interface Search extends Hunting {
  readonly size: Size
}

export interface Sighting {
  readonly seed: number
  readonly violations: readonly string[]
}

const PROGRAM = 'scripts/sim.ts'

/** Runs schedules with one mutant, until one violates an invariant that the correct code keeps on the same seed. */
export function hunt(mutant: Mutant, of: Hunting): Promise<Hunt> {
  return huntBy(mutant, of, (search) => firstBroken(search, mutant.flaw))
}

/** Hunts a patch in a process of its own, because the code itself differs. */
export async function huntPatch(patch: Patch, of: Hunting, build: BuildPatched): Promise<Hunt> {
  const copy = build(patch)
  try {
    return await huntBy(patch, of, (search) => apart(search, () => undefined, copy.entry(PROGRAM)))
  } finally {
    copy.remove()
  }
}

async function huntBy(
  mutant: Wanted & { readonly name: string },
  { seed, schedules }: Hunting,
  look: (search: Search) => Promise<Sighting | null>,
): Promise<Hunt> {
  const size = sizeOf(mutant)
  const end = seed + schedules
  for (let from = seed; from < end;) {
    const found = await look({ seed: from, schedules: end - from, size })
    if (found === null) break
    const sound = new Set((await runSchedule(found.seed, undefined, size)).violations.map(promiseOf))
    const broke = found.violations.find((violation) => !sound.has(promiseOf(violation)))
    if (broke !== undefined) return { mutant: mutant.name, seed: found.seed, broke, schedules: found.seed - seed + 1 }
    from = found.seed + 1
  }
  return { mutant: mutant.name, seed: null, broke: null, schedules }
}

export async function firstBroken({ seed, schedules, size }: Search, flaw?: Mutant['flaw']): Promise<Sighting | null> {
  for (let n = seed; n < seed + schedules; n++) {
    const { violations } = await runSchedule(n, flaw, size)
    if (violations.length > 0) return { seed: n, violations }
  }
  return null
}

function sizeOf(wanted: Wanted): Size {
  return {
    ...ANY,
    relays: wanted.relays === true,
    consumers: wanted.consumers === true,
    scopes: wanted.scopes === true,
    readers: wanted.readers === true,
    redrives: wanted.redrives === true,
    rivals: wanted.rivals === true,
    releases: wanted.releases === true,
    tier: wanted.tier === true,
    company: wanted.company ?? 'nobody',
    weather: wanted.weather ?? null,
  }
}

function promiseOf(violation: string): string {
  return violation.slice(0, violation.indexOf(':'))
}
