import { violations } from './checkers/index.ts'
import { FAULT_KINDS } from './fault.ts'
import type { FaultKind } from './fault.ts'
import { SOUND } from './flaw.ts'
import { openFindingOf } from './open-findings.ts'
import { ANY } from './plan.ts'
import type { Size } from './plan.ts'
import type { Flaw } from './process.ts'
import { eventsOf } from './trace.ts'
import type { TraceEvent } from './trace.ts'
import { World } from './world.ts'

export interface Schedule {
  readonly seed: number
  readonly steps: number
  readonly crashes: number
  readonly faults: Readonly<Record<FaultKind, number>>
  readonly violations: readonly string[]
  /** Violations that are known open findings. */
  readonly open: readonly string[]
  /** True when nothing was committed or no fault occurred. Such a schedule proves nothing. */
  readonly vacuous: boolean
  readonly trace: readonly TraceEvent[]
}

/** Runs one seed from chaos to rest, and returns the violations that the checkers find. */
export async function runSchedule(seed: number, flaw: Flaw = SOUND, size: Size = ANY): Promise<Schedule> {
  const world = new World(seed, flaw, size)
  const unhandled = (error: unknown): void => {
    world.note({ kind: 'unhandled', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
  process.on('unhandledRejection', unhandled)
  await world.run()
  // Without a macrotask, ticks would starve timers, messages and the report of unhandled rejections.
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', unhandled)
  const effects = eventsOf(world.trace, 'commit').some((commit) => commit.effects.length > 0)
  const broken = violations(world.trace)
  const hit = FAULT_KINDS.some((kind) => world.faults[kind] > 0)
  return {
    seed,
    steps: world.scheduler.steps,
    crashes: world.crashes,
    faults: world.faults,
    violations: broken.filter((violation) => openFindingOf(violation) === undefined),
    open: broken.flatMap((violation) => openFindingOf(violation)?.name ?? []),
    vacuous: !effects || !hit,
    trace: world.trace,
  }
}

export interface Tally {
  schedules: number
  vacuous: number
  steps: number
  crashes: number
  readonly faults: Record<FaultKind, number>
  /** The seeds that violated an invariant, with the first violations. */
  /** The number of schedules that showed each open finding, by its name. */
  readonly open: Record<string, number>
  readonly broken: { readonly seed: number; readonly violations: readonly string[] }[]
}

export function newTally(): Tally {
  const faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<FaultKind, number>
  return { schedules: 0, vacuous: 0, steps: 0, crashes: 0, faults, open: {}, broken: [] }
}

export function addSchedule(tally: Tally, schedule: Schedule): void {
  if (schedule.vacuous) tally.vacuous += 1
  else tally.schedules += 1
  tally.steps += schedule.steps
  tally.crashes += schedule.crashes
  for (const kind of FAULT_KINDS) tally.faults[kind] += schedule.faults[kind]
  for (const name of new Set(schedule.open)) tally.open[name] = (tally.open[name] ?? 0) + 1
  if (schedule.violations.length > 0) tally.broken.push({ seed: schedule.seed, violations: schedule.violations })
}

export function mergeTally(into: Tally, from: Tally): void {
  into.schedules += from.schedules
  into.vacuous += from.vacuous
  into.steps += from.steps
  into.crashes += from.crashes
  for (const kind of FAULT_KINDS) into.faults[kind] += from.faults[kind]
  for (const [name, count] of Object.entries(from.open)) into.open[name] = (into.open[name] ?? 0) + count
  into.broken.push(...from.broken)
}
