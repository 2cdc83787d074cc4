import { readArguments } from './arguments.ts'
import type { Wishes } from './arguments.ts'
import { firstBroken, huntPatch } from './mutants/hunt.ts'
import type { BuildPatched, Hunt, Search } from './mutants/hunt.ts'
import { MUTANTS, PATCHES } from './mutants/index.ts'
import { mergeTally, newTally, runSchedule } from './run.ts'
import type { Tally } from './run.ts'
import { work } from './shift.ts'
import type { Done, Shift } from './shift.ts'
import { apart, isWorker, progressOf, serve } from './workers.ts'

/** Below this number of schedules, a second process does not pay off. */
const ALONE_MAX = 400
const HUNT_SCHEDULES = 5_000
const BROKEN_SHOWN = 5

/**
 * `npm run sim -- --schedules 100000 --seed 1 --json` runs schedules, then every mutant. `--mutant NAME|all` runs
 * mutants only. `build` makes a compiled copy with one patch applied.
 */
async function main(wishes: Wishes, build: BuildPatched): Promise<number> {
  const names = [...MUTANTS, ...PATCHES].map(({ name }) => name)
  const wanted = wishes.mutant === null || wishes.mutant === 'all' ? names : names.filter((of) => of === wishes.mutant)
  const hunted = wishes.mutants ? wanted : []
  if (hunted.length === 0 && wishes.mutants) return refuse(`no mutant is called ${JSON.stringify(wishes.mutant)}`)
  const schedules = wishes.mutant === null ? wishes.schedules : 0
  const workers = schedules <= ALONE_MAX && hunted.length === 1 ? 1 : wishes.workers
  const progress = progressOf(workers, schedules, 'schedules')
  const done = await Promise.all(
    Array.from({ length: workers }, (_, i) => {
      const shift = shiftOf(wishes, { workers, schedules, hunted }, i)
      const told = (count: number): void => progress(i, count)
      return workers === 1 ? work(shift, told) : apart<Done>(shift, told)
    }),
  )
  const tally = newTally()
  for (const part of done) mergeTally(tally, part.tally)
  const hunts = [...done.flatMap((part) => part.hunts), ...(await huntPatches(wishes, hunted, build))]
  report(wishes, tally, hunts)
  for (const [name, count] of Object.entries(tally.open))
    process.stderr.write(`open finding, ${count} schedules: ${name}\n`)
  await showBroken(tally)
  const survivors = hunts.filter(({ seed }) => seed === null)
  for (const { mutant, schedules: tried } of survivors) process.stderr.write(`survived ${tried} schedules: ${mutant}\n`)
  return tally.broken.length > 0 || survivors.length > 0 ? 1 : 0
}

interface Sharing {
  readonly workers: number
  readonly schedules: number
  readonly hunted: readonly string[]
}

function shiftOf({ seed }: Wishes, { workers, schedules, hunted }: Sharing, i: number): Shift {
  const share = Math.floor(schedules / workers) + (i < schedules % workers ? 1 : 0)
  const mutants = hunted.filter((_, n) => n % workers === i)
  return { schedules: share, seed: seed + i, stride: workers, mutants, huntSchedules: HUNT_SCHEDULES }
}

/** Hunts each patch in a process of its own, with one process per worker at a time. */
async function huntPatches({ seed, workers }: Wishes, hunted: readonly string[], build: BuildPatched): Promise<Hunt[]> {
  const waiting = PATCHES.filter(({ name }) => hunted.includes(name))
  const hunts: Hunt[] = []
  const next = async (): Promise<void> => {
    for (let patch = waiting.shift(); patch; patch = waiting.shift())
      hunts.push(await huntPatch(patch, { seed, schedules: HUNT_SCHEDULES }, build))
  }
  await Promise.all(Array.from({ length: workers }, next))
  return hunts
}

function report({ json, mutant: wanted }: Wishes, tally: Tally, hunts: readonly Hunt[]): void {
  const killed = hunts.filter(({ seed }) => seed !== null)
  const { schedules, steps, crashes, faults, broken } = tally
  const summary = {
    schedules,
    steps,
    crashes,
    faults,
    violations: broken.length,
    mutants: { killed: killed.length, total: hunts.length },
  }
  if (json) return void process.stdout.write(`${JSON.stringify(summary)}\n`)
  const kinds = Object.entries(faults).map(([kind, count]) => `  ${kind} ${count}`)
  const shown = wanted === null ? [] : killed.map(({ mutant, seed, broke }) => `  ${mutant}: seed ${seed}, ${broke}`)
  process.stdout.write(
    [
      `${schedules} schedules (${tally.vacuous} more had no effect or no fault), ${steps} steps, ${crashes} crashes`,
      ...(schedules > 0 ? kinds : []),
      `${broken.length} schedules broke a promise`,
      ...shown,
      `${killed.length} of ${hunts.length} mutants killed`,
      '',
    ].join('\n'),
  )
}

/** Prints every broken seed, and the whole trace of the first one. */
async function showBroken({ broken }: Tally): Promise<void> {
  const [first] = broken
  if (first === undefined) return
  for (const { seed, violations } of broken.slice(0, BROKEN_SHOWN))
    process.stderr.write(`seed ${seed}: ${violations.join('\n  ')}\n`)
  const { trace } = await runSchedule(first.seed)
  process.stderr.write(`the trace of seed ${first.seed}:\n${trace.map((event) => JSON.stringify(event)).join('\n')}\n`)
}

function refuse(why: string): number {
  process.stderr.write(`sim: ${why}\n`)
  return 2
}

/** The job of a worker: schedules and mutants, or a search in a copy with a patch applied. */
function part(shift: Shift | Search, progress: (schedules: number) => void): Promise<unknown> {
  return 'size' in shift ? firstBroken(shift) : work(shift, progress)
}

export function start(build: BuildPatched): void {
  if (isWorker()) return serve(part)
  const wishes = readArguments(process.argv.slice(2), 'schedules')
  const ended = typeof wishes === 'string' ? Promise.resolve(refuse(wishes)) : main(wishes, build)
  void ended.then((code) => {
    process.exitCode = code
  })
}
