import { readArguments, type Wishes } from './arguments.ts'
import { openBed } from './beds.ts'
import { FROZEN_DEADLINE } from './freezes.ts'
import { hunt } from './hunt.ts'
import { PROGRAM_MUTANTS } from './mutants.ts'
import { rareKinds, runPrograms, type Tally } from './run.ts'

/** Programs that are played at the same time: they wait for the database more than for each other. */
const LANES = 6
const TELL_EVERY_MS = 10_000
/** So few programs need not meet everything. */
const MEETS_ALL = 1_000
/** Of a program, on average. */
const OPERATIONS_MIN = 5

interface Mutants {
  killed: number
  total: number
}

/** `npm run fuzz:programs -- --programs 2000 --seed 1 --store pg --json` */
async function main(wishes: Wishes): Promise<number> {
  const { store, programs, seed, shrinks, untilFirst, freezes } = wishes
  const mutants = await huntAll(wishes)
  const { bed, close } = await openBed(store, freezes ? FROZEN_DEADLINE : undefined)
  const rejections: unknown[] = []
  process.on('unhandledRejection', (error) => rejections.push(error))
  let toldAt = Date.now()
  const told = (done: number): void => {
    if (Date.now() - toldAt < TELL_EVERY_MS) return
    toldAt = Date.now()
    process.stderr.write(`${done} of ${programs} programs\n`)
  }
  const tally = await runPrograms(bed, { programs, seed, lanes: LANES, shrinks, untilFirst, freezes, told })
  await close()
  report(wishes, tally, rejections, mutants)
  const rare = untilFirst || freezes || programs < MEETS_ALL ? [] : rareKinds(store, tally)
  for (const kind of rare) process.stderr.write(`too rare: ${kind}, in ${tally.faults[kind]} of ${programs} programs\n`)
  const few = tally.operations < programs * OPERATIONS_MIN ? 1 : 0
  if (few) process.stderr.write(`too few operations: ${tally.operations} in ${programs} programs\n`)
  const broken = tally.violations + rejections.length + rare.length + few
  return broken > 0 || mutants.killed < mutants.total ? 1 : 0
}

/** One after the other: each is a copy of everything, with processes of its own. */
async function huntAll({ mutant: wanted, seed }: Wishes): Promise<Mutants> {
  const mutants = PROGRAM_MUTANTS.filter(({ name }) => wanted === 'all' || wanted === name)
  if (wanted !== null && mutants.length === 0) throw new Error(`no mutant is called '${wanted}'`)
  const told: Mutants = { killed: 0, total: mutants.length }
  for (const one of mutants) {
    const { killed } = await hunt(one, seed)
    if (killed) told.killed++
    const words = killed ? `killed by one of ${killed.programs} programs: ${killed.broke}` : 'lives'
    process.stderr.write(`mutant '${one.name}' on ${one.store}: ${words}\n`)
  }
  return told
}

function report({ json }: Wishes, tally: Tally, rejections: readonly unknown[], mutants: Mutants): void {
  for (const text of [...tally.broken, ...tally.printed]) process.stderr.write(`${text}\n`)
  for (const error of rejections) process.stderr.write(`a rejection that nobody could catch: ${wordsOf(error)}\n`)
  const { programs, operations, faults, heldUp } = tally
  const violations = tally.violations + rejections.length
  if (json) {
    process.stdout.write(`${JSON.stringify({ programs, operations, faults, violations, heldUp, mutants })}\n`)
    return
  }
  const kinds = Object.entries(faults).map(([kind, count]) => `  ${kind} ${count}`)
  process.stdout.write(
    [
      `${programs} programs, ${operations} operations`,
      ...kinds,
      `${violations} violations`,
      `${heldUp} plays came too late while the machine stood still, and were played again`,
      `${mutants.killed} of ${mutants.total} mutants killed`,
      '',
    ].join('\n'),
  )
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

const wishes = readArguments(process.argv.slice(2))
if (typeof wishes === 'string') {
  process.stderr.write(`fuzz:programs: ${wishes}\n`)
  process.exitCode = 2
} else {
  // What hangs must not keep the process: it was counted.
  process.exit(await main(wishes))
}
