import { execFile } from 'node:child_process'
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isLong } from '../../scripts/mutate/long.ts'
import { Tree } from '../../scripts/mutate/tree.ts'
import { toyBroker } from './broker.ts'
import { toyFramework } from './framework.ts'
import { toyStore } from './store.ts'
import type { Toy } from './toy.ts'

const TIMEOUT_MS = 180_000
const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const TOYS: Readonly<Record<string, Toy>> = { toydb: toyStore, toyweb: toyFramework, toymq: toyBroker }

/** Each toy is its own files, one entry in scripts/subpaths.ts, at most one row of a contract, and its page. */
describe('a toy of each kind, added as docs/contributing.md says', () => {
  let tree: Tree
  const at = (file: string): string => join(tree.root, file)

  async function run(...args: readonly string[]): Promise<string> {
    const ended = promisify(execFile)(process.execPath, [...args], {
      cwd: tree.root,
      env: { ...process.env, TESTS: '' },
    })
    return ended.then(
      () => 'passed',
      ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}${stderr}`,
    )
  }

  beforeAll(async () => {
    tree = await Tree.copy(ROOT)
    for (const [name, toy] of Object.entries(TOYS)) {
      for (const [file, text] of Object.entries(toy.files)) {
        mkdirSync(dirname(at(file)), { recursive: true })
        writeFileSync(at(file), text)
      }
      insert('scripts/subpaths.ts', 'SUBPATHS: Readonly<Record<string, Subpath>> = {\n', `${toy.subpath}\n`)
      for (const { file, after, row } of toy.rows) insert(file, after, row)
      appendFileSync(at(toy.page), `\nImport it from \`effectively-once/${name}\`.\n`)
    }
  }, TIMEOUT_MS)
  afterAll(() => tree.remove())

  function insert(file: string, after: string, row: string): void {
    const text = readFileSync(at(file), 'utf8')
    expect(text.split(after)).toHaveLength(2)
    writeFileSync(
      at(file),
      text.replace(after, () => after + row),
    )
  }

  it('needs one command for the package and the tables', { timeout: TIMEOUT_MS }, async () => {
    const list = 'test/tidy-subpaths.test.ts'
    expect((await tree.tests.run(list, TIMEOUT_MS)).kind).toBe('failed')
    expect(await run('--import', 'tsx', 'scripts/manifest.ts')).toBe('passed')
    // The README says in two comments what else there is, in words of its own.
    for (const [before, added] of [
      ['// or /fastify,', ' /toyweb,'],
      ['// or /nats,', ' /toymq,'],
    ] as const) {
      insert('README.md', before, added)
    }
    for (const test of [list, 'test/tidy-cycles.test.ts', 'test/tidy.test.ts'])
      expect(await tree.tests.run(test, TIMEOUT_MS)).toEqual({ kind: 'passed', why: '' })
    const { exports } = JSON.parse(readFileSync(at('package.json'), 'utf8')) as { exports: object }
    expect(Object.keys(exports)).toEqual(expect.arrayContaining(Object.keys(TOYS).map((name) => `./${name}`)))
  })

  it('has types that fit', { timeout: TIMEOUT_MS }, async () => {
    const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
    expect(await run(tsc, '--noEmit')).toBe('passed')
  })

  it.each(Object.keys(TOYS))('%s passes the contract of its kind', { timeout: TIMEOUT_MS }, async (name) => {
    const { file, named } = TOYS[name]!.proof
    const report = at('toy-report.json')
    const vitest = join(tree.root, 'node_modules', 'vitest', 'vitest.mjs')
    const args = [vitest, 'run', file, '--reporter=json', `--outputFile=${report}`, ...(named ? ['-t', named] : [])]
    const env = { ...process.env, TESTS: isLong(file) ? 'long' : '' }
    await promisify(execFile)(process.execPath, args, { cwd: tree.root, env }).catch(() => {})
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report
    const cases = testResults.flatMap(({ assertionResults }) => assertionResults)
    expect(cases.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName)).toEqual([])
    expect(cases.filter(({ status }) => status === 'passed').length).toBeGreaterThan(15)
  })
})

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}
