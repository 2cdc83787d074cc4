import { runSchedule } from '../run.ts'
import { CLAIM_MUTANTS } from './claim-mutants.ts'
import { CLIENT_MUTANTS } from './client-mutants.ts'
import { CONSUMER_MUTANTS } from './consumer-mutants.ts'
import { LEASE_MUTANTS } from './lease-mutants.ts'
import type { Mutant } from './mutant.ts'
import { OUTBOX_MUTANTS } from './outbox-mutants.ts'
import { READER_MUTANTS, REDRIVE_MUTANTS } from './redrive-mutants.ts'
import { SCOPE_MUTANTS } from './scope-mutants.ts'
import { SET_ASIDE_MUTANTS } from './set-aside-mutants.ts'
import { ANY } from '../plan.ts'

export type { Mutant } from './mutant.ts'

export const MUTANTS: readonly Mutant[] = [
  ...CLAIM_MUTANTS,
  ...LEASE_MUTANTS,
  ...CLIENT_MUTANTS,
  ...OUTBOX_MUTANTS,
  ...CONSUMER_MUTANTS,
  ...REDRIVE_MUTANTS,
  ...READER_MUTANTS,
  ...SET_ASIDE_MUTANTS,
  ...SCOPE_MUTANTS,
]

export interface Hunt {
  readonly mutant: string
  /** The seed that showed it, and what it broke; null when it survived. */
  readonly seed: number | null
  readonly broke: string | null
  readonly schedules: number
}

/** Schedules with one mutant in them, until one of them breaks a promise that the sound code keeps on the same seed. */
export async function hunt(mutant: Mutant, of: { readonly seed: number; readonly schedules: number }): Promise<Hunt> {
  const size = {
    ...ANY,
    relays: mutant.relays === true,
    consumers: mutant.consumers === true,
    scopes: mutant.scopes === true,
    readers: mutant.readers === true,
    redrives: mutant.redrives === true,
    rivals: mutant.rivals === true,
  }
  for (let n = 0; n < of.schedules; n++) {
    const seed = of.seed + n
    const { violations } = await runSchedule(seed, mutant.flaw, size)
    if (violations.length > 0) {
      const sound = new Set((await runSchedule(seed, undefined, size)).violations.map(promiseOf))
      const broke = violations.find((violation) => !sound.has(promiseOf(violation)))
      if (broke !== undefined) return { mutant: mutant.name, seed, broke, schedules: n + 1 }
    }
  }
  return { mutant: mutant.name, seed: null, broke: null, schedules: of.schedules }
}

function promiseOf(violation: string): string {
  return violation.slice(0, violation.indexOf(':'))
}
