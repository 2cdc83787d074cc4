import { fork } from 'node:child_process'
import { readArguments } from './arguments.ts'
import type { Wishes } from './arguments.ts'
import type { Hunt } from './mutants/index.ts'
import { mergeTally, newTally, runSchedule } from './run.ts'
import type { Tally } from './run.ts'
import { work } from './shift.ts'
import type { Done, Shift } from './shift.ts'

/** So few schedules are not worth a second process. */
const ALONE_MAX = 400
const SHIFT = '--shift'
const HUNT_SCHEDULES = 5_000
const BROKEN_SHOWN = 5

type Message =
  { readonly kind: 'progress'; readonly schedules: number } | { readonly kind: 'done'; readonly done: Done }

/** `npm run sim -- --schedules 100000 --seed 1 --json` */
async function main(wishes: Wishes): Promise<number> {
  const startedAt = performance.now()
  const workers = wishes.schedules <= ALONE_MAX ? 1 : wishes.workers
  const counts = Array.from({ length: workers }, () => 0)
  const shown = { at: 0 }
  const progress = (worker: number, schedules: number): void => {
    counts[worker] = schedules
    const now = performance.now()
    if (now - shown.at < 1_000) return
    shown.at = now
    const sum = counts.reduce((a, b) => a + b, 0)
    process.stderr.write(`${sum} of ${wishes.schedules} schedules, ${Math.round(sum / ((now - startedAt) / 1000))}/s\n`)
  }
  const shifts = counts.map((_, i) => shiftOf(wishes, workers, i))
  const done = await Promise.all(
    shifts.map((shift, i) =>
      workers === 1
        ? work(shift, (schedules) => progress(i, schedules))
        : apart(shift, (schedules) => progress(i, schedules)),
    ),
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

/** This very file again, in a process of its own: a thread would not inherit the loader. */
function apart(shift: Shift, progress: (schedules: number) => void): Promise<Done> {
  return new Promise((resolve, reject) => {
    const child = fork(process.argv[1]!, [SHIFT])
    child.on('message', (message: Message) => {
      if (message.kind === 'progress') progress(message.schedules)
      else resolve(message.done)
    })
    child.on('error', reject)
    child.on('exit', (code) => reject(new Error(`a worker ended with code ${code}`)))
    child.send(shift)
  })
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

/** Waits for its shift, works, and tells. */
function serve(): void {
  const tell = (message: Message, then?: () => void): void => void process.send?.(message, undefined, undefined, then)
  process.once('message', (shift: Shift) => {
    void work(shift, (schedules) => tell({ kind: 'progress', schedules })).then((done) =>
      tell({ kind: 'done', done }, () => process.disconnect()),
    )
  })
}

function start(): void {
  const wishes = readArguments(process.argv.slice(2))
  if (typeof wishes === 'string') {
    process.stderr.write(`sim: ${wishes}\n`)
    process.exitCode = 2
    return
  }
  void main(wishes).then((code) => {
    process.exitCode = code
  })
}

if (process.argv[2] === SHIFT) serve()
else start()
