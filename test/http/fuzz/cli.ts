import { readArguments, type Wishes } from './arguments.ts'
import { hunt } from './hunt.ts'
import { HTTP_MUTANTS } from './mutants.ts'
import { rareKinds, runCases, type Tally } from './run.ts'

/** Cases that are played at the same time: most of their time they wait. */
const LANES = 12
const TELL_EVERY_MS = 10_000
/** So few cases need not have everything. */
const HAS_ALL = 2_000
const BROKE_MAX = 300

/** `npm run fuzz:http -- --cases 5000 --seed 1 --json` */
async function main(wishes: Wishes): Promise<number> {
  const { cases, seed, shrinks, untilFirst, mutant } = wishes
  if (mutant !== null) return huntAll(mutant, seed)
  let toldAt = Date.now()
  const told = (done: number): void => {
    if (Date.now() - toldAt < TELL_EVERY_MS) return
    toldAt = Date.now()
    process.stderr.write(`${done} of ${cases} cases\n`)
  }
  const tally = await runCases({ cases, seed, lanes: LANES, shrinks, untilFirst, told })
  report(wishes, tally)
  const rare = untilFirst || cases < HAS_ALL ? [] : rareKinds(tally)
  for (const kind of rare) process.stderr.write(`too rare: ${kind}\n`)
  return tally.differences + tally.deaths + rare.length > 0 ? 1 : 0
}

/** One after the other: each is a copy of everything, with processes of its own. The number of those that live. */
async function huntAll(wanted: string, seed: number): Promise<number> {
  const mutants = HTTP_MUTANTS.filter(({ name }) => wanted === 'all' || wanted === name)
  if (mutants.length === 0) throw new Error(`no mutant is called '${wanted}'`)
  let killed = 0
  for (const mutant of mutants) {
    const by = await hunt(mutant, seed)
    if (by) killed++
    const words = by ? `killed by one of ${by.cases} cases: ${by.broke.slice(0, BROKE_MAX)}` : 'lives'
    process.stderr.write(`mutant '${mutant.name}': ${words}\n`)
  }
  process.stdout.write(`${JSON.stringify({ mutants: { killed, total: mutants.length } })}\n`)
  return killed === mutants.length ? 0 : 1
}

function report({ json }: Wishes, tally: Tally): void {
  for (const text of [...tally.told, ...tally.printed]) process.stderr.write(`${text}\n`)
  const { cases, differences, deaths, adapters, protocols, kinds } = tally
  if (json) {
    process.stdout.write(`${JSON.stringify({ cases, differences, deaths, adapters, protocols, kinds })}\n`)
    return
  }
  const counts = Object.entries({ ...adapters, ...protocols, ...kinds }).map(([name, count]) => `  ${name} ${count}`)
  const lines = [`${cases} cases`, ...counts, `${differences} differences`, `${deaths} deaths`, '']
  process.stdout.write(lines.join('\n'))
}

const wishes = readArguments(process.argv.slice(2))
if (typeof wishes === 'string') {
  process.stderr.write(`fuzz:http: ${wishes}\n`)
  process.exitCode = 2
} else {
  // What hangs must not keep the process: it was counted.
  process.exit(await main(wishes))
}
