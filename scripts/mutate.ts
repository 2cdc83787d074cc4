/**
 * Changes one line of the product at a time, in a copy of the repository, and runs the tests that execute it. A change
 * that no test sees has survived: a test is missing, or the change means nothing (scripts/mutate/equivalent.ts).
 *
 * npm run mutate -- [--sites N] [--seed S] [--json] [--files a,b] [--tests N] [--long] [--limit SECONDS]
 *   [--from N --count N] [--results FILE [--again]] [--controls FOLDER]
 */
import { readFile, readdir } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isLong } from './mutate/long.ts'
import { equivalentTo } from './mutate/equivalent.ts'
import { Imports } from './mutate/related.ts'
import { Controls } from './mutate/controls.ts'
import { reaches } from './mutate/reached.ts'
import { Results, type Verdict } from './mutate/results.ts'
import { mutated, sample, type Mutation, type SourceText } from './mutate/sites.ts'
import type { Ran } from './mutate/tests.ts'
import { Tree } from './mutate/tree.ts'

/** Of the related tests, so many times `--tests` are looked at for tests that execute the line. */
const LOOKED_AT = 3
const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')

const { values } = parseArgs({
  options: {
    sites: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    /** Paths, or prefixes of paths. */
    files: { type: 'string', default: 'src/' },
    /** The maximum number of test files per change, nearest first. */
    tests: { type: 'string', default: '10' },
    /** Also runs the tests of the long run when the quick ones detect nothing. */
    long: { type: 'boolean', default: false },
    /** Seconds of one test file. */
    limit: { type: 'string', default: '240' },
    /** A piece of the sample: from this site on, so many. */
    from: { type: 'string', default: '0' },
    count: { type: 'string' },
    /** The file that keeps the verdicts: what has one there is not run again. */
    results: { type: 'string' },
    /** The folder that keeps what each test executes. */
    controls: { type: 'string' },
    /** Runs the survivors of the results again. */
    again: { type: 'boolean', default: false },
  },
})

async function productFiles(wanted: readonly string[]): Promise<SourceText[]> {
  const names = await readdir(join(ROOT, 'src'), { recursive: true })
  const paths = names
    .map((name) => posix.join('src', name))
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('src/testing/'))
    .filter((path) => wanted.some((start) => path.startsWith(start)))
    .toSorted()
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(ROOT, path), 'utf8') })))
}

const limitMs = Number(values.limit) * 1_000
/** A run with a change may take longer than the one without, by so much. */
const MORE_TIMES = 4
const MORE_MS = 20_000
/** A failure for lack of time may be the machine's fault: the test must pass once more, in the same time, without it. */
const SLOW = /time|late\b|within| ms\b|deadline|waited|ended|less than/i

/** The nearest tests that execute the line: quick tests first, then those of the long run. */
async function judge(tree: Tree, controls: Controls, imports: Imports, mutation: Mutation): Promise<Verdict> {
  const related = imports.testsOf(mutation.file)
  const change = (text: string): string => mutated(text, mutation)
  const isOwn = (test: string): boolean => test === mutation.file.replace(/\.ts$/, '.test.ts')
  // A file's own test is run first, also where it is a long one.
  const quick = related
    .filter((test) => isOwn(test) || !isLong(test))
    .toSorted((a, b) => Number(isOwn(b)) - Number(isOwn(a)))
  const long = values.long ? related.filter((test) => isLong(test) && !isOwn(test)) : []
  const passed: string[] = []
  const unusable: string[] = []
  for (const tests of [quick, long]) {
    let run = 0
    for (const test of tests.slice(0, Number(values.tests) * LOOKED_AT)) {
      if (run >= Number(values.tests)) break
      const control = await controls.of(test)
      if (!reaches(control.reached, mutation.file, mutation.line - 1, mutation.column)) continue
      if (control.kind !== 'passed') unusable.push(test)
      else {
        run++
        const limit = Math.min(limitMs, control.tookMs * MORE_TIMES + MORE_MS)
        const ran = await tree.with(mutation.file, change, () => tree.tests.run(test, limit))
        if (ran.kind === 'passed') passed.push(test)
        else if (ran.kind === 'failed' && !SLOW.test(ran.why)) return killedBy(test, ran)
        else if ((await tree.tests.run(test, limit)).kind === 'passed') return killedBy(test, ran)
        else unusable.push(test)
      }
    }
  }
  if (passed.length > 0 && unusable.length === 0) return { kind: 'survived', why: `passed: ${passed.join(', ')}` }
  if (unusable.length > 0) return { kind: 'undecided', why: `fails without it, too: ${unusable.join(', ')}` }
  return { kind: 'survived', why: 'no test executes it' }
}

function killedBy(test: string, { kind, why }: Ran): Verdict {
  return { kind: 'killed', why: `${test} ${kind}: ${why}` }
}

const sources = await productFiles(values.files.split(','))
const picked = await sample(sources, Number(values.sites), Number(values.seed))
const piece = picked.slice(Number(values.from), Number(values.from) + Number(values.count ?? picked.length))
const results = new Results(values.results)
const imports = new Imports(ROOT)
const tree = await Tree.copy(ROOT)
const controls = new Controls(tree.root, tree.tests, values.controls ?? join(tree.root, '.controls'), limitMs)
const interrupted = (): void => void tree.remove().then(() => process.exit(130))
process.on('SIGINT', interrupted).on('SIGTERM', interrupted)
try {
  for (const mutation of piece) {
    const before = results.of(mutation)
    const isDone = before?.kind === 'killed' || (before && !values.again)
    if (isDone || equivalentTo(mutation)) continue
    const startedAt = performance.now()
    const verdict = await judge(tree, controls, imports, mutation)
    results.add(mutation, verdict)
    const took = Math.round((performance.now() - startedAt) / 1_000)
    const { file, line, mutator, from, to } = mutation
    console.error(
      `${verdict.kind} ${file}:${line} ${mutator} ${short(from)} -> ${short(to)} (${took} s) ${verdict.why}`,
    )
  }
} finally {
  await tree.remove()
}
const summary = results.summary(picked)
if (values.json) console.log(JSON.stringify(summary))
else {
  const { sites, killed, survived, equivalent, undecided } = summary
  console.log(
    `${sites} sites, ${killed} killed, ${survived.length} survived, ${equivalent.length} equivalent, ${undecided.length} undecided`,
  )
}

function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
