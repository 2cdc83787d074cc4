import { readArguments } from './arguments.ts'
import type { Wishes } from './arguments.ts'
import type { Hunt } from './mutants/index.ts'
import { mergeTally, newTally, runSchedule } from './run.ts'
import type { Tally } from './run.ts'
import { work } from './shift.ts'
import type { Done, Shift } from './shift.ts'
import { apart, isWorker, progressOf, serve } from './workers.ts'

/** So few schedules are not worth a second process. */
const ALONE_MAX = 400
const HUNT_SCHEDULES = 5_000
const BROKEN_SHOWN = 5

/** `npm run sim -- --schedules 100000 --seed 1 --json` */
async function main(wishes: Wishes): Promise<number> {
  const workers = wishes.schedules <= ALONE_MAX ? 1 : wishes.workers
  const progress = progressOf(workers, wishes.schedules, 'schedules')
  const done = await Promise.all(
    Array.from({ length: workers }, (_, i) => {
      const shift = shiftOf(wishes, workers, i)
      const told = (schedules: number): void => progress(i, schedules)
      return workers === 1 ? work(shift, told) : apart<Done>(shift, told)
    }),
  )
  const tally = newTally()
  for (const part of done) mergeTally(tally, part.tally)
  const hunts = done.flatMap((part) => part.hunts)
  report(wishes, tally, hunts)
  for (const [name, count] of Object.entries(tally.open))
    process.stderr.write(`open finding, ${count} schedules: ${name}\n`)
  await showBroken(tally)
  const survivors = hunts.filter(({ seed }) => seed === null)
  for (const { mutant, schedules } of survivors) process.stderr.write(`survived ${schedules} schedules: ${mutant}\n`)
  return tally.broken.length > 0 || survivors.length > 0 ? 1 : 0
}

function shiftOf({ schedules, seed }: Wishes, workers: number, i: number): Shift {
  const share = Math.floor(schedules / workers) + (i < schedules % workers ? 1 : 0)
  return { schedules: share, seed: seed + i, stride: workers, first: i, huntSchedules: HUNT_SCHEDULES }
}

function report({ json }: Wishes, tally: Tally, hunts: readonly Hunt[]): void {
  const killed = hunts.filter(({ seed }) => seed !== null).length
  const { schedules, steps, crashes, faults, broken } = tally
  const summary = {
    schedules,
    steps,
    crashes,
    faults,
    violations: broken.length,
    mutants: { killed, total: hunts.length },
  }
  if (json) return void process.stdout.write(`${JSON.stringify(summary)}\n`)
  const kinds = Object.entries(faults).map(([kind, count]) => `  ${kind} ${count}`)
  process.stdout.write(
    [
      `${schedules} schedules (${tally.vacuous} more had no effect or no fault), ${steps} steps, ${crashes} crashes`,
      ...kinds,
      `${broken.length} schedules broke a promise`,
      `${killed} of ${hunts.length} mutants killed`,
      '',
    ].join('\n'),
  )
}

/** Every broken seed, and the whole trace of the first. */
async function showBroken({ broken }: Tally): Promise<void> {
  const [first] = broken
  if (first === undefined) return
  for (const { seed, violations } of broken.slice(0, BROKEN_SHOWN))
    process.stderr.write(`seed ${seed}: ${violations.join('\n  ')}\n`)
  const { trace } = await runSchedule(first.seed)
  process.stderr.write(`the trace of seed ${first.seed}:\n${trace.map((event) => JSON.stringify(event)).join('\n')}\n`)
}

function start(): void {
  const wishes = readArguments(process.argv.slice(2), 'schedules')
  if (typeof wishes === 'string') {
    process.stderr.write(`sim: ${wishes}\n`)
    process.exitCode = 2
    return
  }
  void main(wishes).then((code) => {
    process.exitCode = code
  })
}

if (isWorker()) serve(work)
else start()
