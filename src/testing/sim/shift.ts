import { hunt, MUTANTS } from './mutants/index.ts'
import type { Hunt } from './mutants/hunt.ts'
import { addSchedule, newTally, runSchedule } from './run.ts'
import type { Tally } from './run.ts'

/** The part of a run that one worker does. */
export interface Shift {
  readonly schedules: number
  readonly seed: number
  readonly stride: number
  /** The names of the mutants to hunt. */
  readonly mutants: readonly string[]
  readonly huntSchedules: number
}

export interface Done {
  readonly tally: Tally
  readonly hunts: readonly Hunt[]
}

const TWICE_EVERY = 100

/**
 * Runs schedules that prove something, from this seed on, and then the mutants. One schedule in a hundred runs twice,
 * and both traces must be equal byte for byte.
 */
export async function work(shift: Shift, progress: (schedules: number) => void): Promise<Done> {
  // The stack traces of thousands of expected errors cost more than the errors. A broken seed is run again with stack
  // traces.
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  const tally = newTally()
  try {
    for (let seed = shift.seed; tally.schedules < shift.schedules; seed += shift.stride) {
      const schedule = await runSchedule(seed)
      addSchedule(tally, schedule)
      if (tally.schedules % TWICE_EVERY === 0 && !schedule.vacuous) {
        const again = await runSchedule(seed)
        if (JSON.stringify(again.trace) !== JSON.stringify(schedule.trace)) {
          tally.broken.push({ seed, violations: ['the same seed made another world: something is not deterministic'] })
        }
      }
      if ((tally.schedules + tally.vacuous) % 200 === 0) progress(tally.schedules)
    }
    const hunts: Hunt[] = []
    for (const mutant of MUTANTS.filter(({ name }) => shift.mutants.includes(name)))
      hunts.push(await hunt(mutant, { seed: shift.seed, schedules: shift.huntSchedules }))
    return { tally, hunts }
  } finally {
    Error.stackTraceLimit = limit
  }
}
