/**
 * Changes one line of the product at a time, in a copy of the repository, and runs the tests that import it. A change
 * that no test sees has survived: a test is missing, or the change means nothing (scripts/mutate/equivalent.ts).
 *
 * npm run mutate -- [--sites N] [--seed S] [--json] [--files a,b] [--tests N] [--long] [--limit SECONDS]
 */
import { readFile, readdir } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isLong } from './mutate/long.ts'
import { equivalentTo } from './mutate/equivalent.ts'
import { Imports } from './mutate/related.ts'
import { mutated, sample, type Mutation, type SourceText } from './mutate/sites.ts'
import { Tree, type Ran } from './mutate/tree.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')

const { values } = parseArgs({
  options: {
    sites: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    /** Paths, or beginnings of them. */
    files: { type: 'string', default: 'src/' },
    /** The nearest so many test files are run. */
    tests: { type: 'string', default: '10' },
    /** The long run's tests, too, where the quick ones see nothing. */
    long: { type: 'boolean', default: false },
    limit: { type: 'string', default: '240' },
  },
})

type Told = Pick<Mutation, 'file' | 'line' | 'mutator' | 'from' | 'to'> & { why: string }
/** `undecided`: the tests do not pass without the change either, so they say nothing of it. */
type Verdict = { readonly kind: 'killed' | 'survived' | 'undecided'; readonly why: string }

async function productFiles(wanted: readonly string[]): Promise<SourceText[]> {
  const names = await readdir(join(ROOT, 'src'), { recursive: true })
  const paths = names
    .map((name) => posix.join('src', name))
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('src/testing/'))
    .filter((path) => wanted.some((start) => path.startsWith(start)))
    .toSorted()
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(ROOT, path), 'utf8') })))
}

/** Quick tests first, then those of the long run. */
async function judge(tree: Tree, imports: Imports, mutation: Mutation): Promise<Verdict> {
  const related = imports.testsOf(mutation.file)
  const most = Number(values.tests)
  const rounds = [{ long: false, files: related.filter((file) => !isLong(file)).slice(0, most) }]
  if (values.long) rounds.push({ long: true, files: related.filter(isLong).slice(0, most) })
  const run: string[] = []
  for (const { long, files } of rounds) {
    if (files.length === 0) continue
    const verdict = await round(tree, mutation, files, long)
    if (verdict.kind !== 'survived') return verdict
    run.push(...files)
  }
  return { kind: 'survived', why: run.length === 0 ? 'no test imports it' : `passed: ${run.join(', ')}` }
}

/** A failure counts only where the same tests pass, in the same time, without the change. */
async function round(tree: Tree, mutation: Mutation, files: readonly string[], long: boolean): Promise<Verdict> {
  const limitMs = Number(values.limit) * 1_000
  const change = (text: string): string => mutated(text, mutation)
  const ran = await tree.with(mutation.file, change, () => tree.test(files, long, limitMs))
  if (ran.kind === 'passed') return { kind: 'survived', why: '' }
  const suspects = ran.failed.length > 0 ? ran.failed : files
  const control: Ran = await tree.test(suspects, long, limitMs)
  if (control.kind === 'passed') return { kind: 'killed', why: ran.kind === 'late' ? 'late' : suspects.join(', ') }
  return { kind: 'undecided', why: `${control.kind} without it, too: ${suspects.join(', ')}` }
}

const sources = await productFiles(values.files.split(','))
const picked = await sample(sources, Number(values.sites), Number(values.seed))
const imports = new Imports(ROOT)
const survived: Told[] = []
const equivalent: Told[] = []
const undecided: Told[] = []
const lists = { survived, equivalent, undecided }
let killed = 0
const tree = await Tree.copy(ROOT)
const interrupted = (): void => void tree.remove().then(() => process.exit(130))
process.on('SIGINT', interrupted).on('SIGTERM', interrupted)
try {
  for (const mutation of picked) {
    const { file, line, mutator, from, to } = mutation
    const known = equivalentTo(mutation)
    const startedAt = performance.now()
    const { kind, why } = known ? { kind: 'equivalent' as const, why: known.why } : await judge(tree, imports, mutation)
    if (kind === 'killed') killed++
    else lists[kind].push({ file, line, mutator, from, to, why })
    const took = Math.round((performance.now() - startedAt) / 1_000)
    console.error(`${kind} ${file}:${line} ${mutator} ${short(from)} -> ${short(to)} (${took} s) ${why}`)
  }
} finally {
  await tree.remove()
}
if (values.json) console.log(JSON.stringify({ sites: picked.length, killed, survived, equivalent, undecided }))
else
  console.log(
    `${picked.length} sites, ${killed} killed, ${survived.length} survived, ${equivalent.length} equivalent, ${undecided.length} undecided`,
  )

function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
