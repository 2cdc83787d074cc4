import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { EQUIVALENT, equivalentTo } from './equivalent.ts'
import { isLong } from './long.ts'
import { reaches } from './reached.ts'
import { Imports } from './related.ts'
import { Results } from './results.ts'
import { mutated, sample, sitesOf, type Mutation } from './sites.ts'

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const path = 'src/a.ts'
const text = `import { b } from './b.ts'
export function f(n: number, name = 'one'): string {
  // if (n > 1)
  if (n > 1) throw new Error('is too large')
  return name + 'two'
}
`

test('a site is a line, with changes that stay within it', async () => {
  const sites = await sitesOf([{ path, text }])
  expect(sites.map(([{ line }]) => line)).toEqual([2, 4, 5])
  const changes = sites.flat()
  expect(changes.map(({ from, to }) => [from, to])).toContainEqual(['n > 1', 'n >= 1'])
  for (const change of changes) {
    expect(text.slice(change.start, change.end)).toBe(change.from)
    expect(mutated(text, change).split('\n')[change.line - 1]).toContain(change.to)
  }
  // Text for people is not mutated.
  expect(changes.some(({ from }) => from === `'is too large'`)).toBe(false)
})

test('SQL has changes of its own, in the stores only', async () => {
  const sql = 'const GET = `select id from t\n  where a <= 1 and b is null`\n// and so on\n'
  const [sites, elsewhere] = [
    await sitesOf([{ path: 'src/store/sqlite/t.ts', text: sql }]),
    await sitesOf([{ path, text: sql }]),
  ]
  const changed = sites.flat().map((change) => mutated(sql, change).split('\n')[1])
  expect(changed).toEqual(
    expect.arrayContaining([
      '  where a <= 1 or b is null`',
      '  where a < 1 and b is null`',
      '  where a <= 1 and b is not null`',
    ]),
  )
  expect(sites.flat().every(({ line }) => line === 2)).toBe(true)
  expect(elsewhere.flat().some(({ mutator }) => mutator === 'Sql')).toBe(false)
})

test('a column of the row that was refused becomes the one that is there', async () => {
  for (const [table, name] of [
    ['${schema}.record as o', 'o'],
    ['${schema}.record', 'record'],
    ['record', 'record'],
  ] as const) {
    const sql = `const PUT = \`insert into ${table} (at) values (1) on conflict (id) do update\n  set at = excluded.at\`\n`
    const changes = (await sitesOf([{ path: 'src/store/postgres/t.ts', text: sql }])).flat()
    expect(changes.map((change) => mutated(sql, change).split('\n')[1])).toContain(`  set at = ${name}.at\``)
  }
})

test('the same seed takes the same sample, without a line twice', async () => {
  const many = Array.from({ length: 10 }, (_, n) => ({ path: `src/${n}.ts`, text }))
  const [one, same, other] = [await sample(many, 20, 7), await sample(many, 20, 7), await sample(many, 20, 8)]
  expect(one).toEqual(same)
  expect(one).not.toEqual(other)
  expect(new Set(one.map(({ file, line }) => `${file}:${line}`)).size).toBe(20)
  expect(await sample(many, 1_000, 7)).toHaveLength(30)
})

test('the tests of a file are those that import it, its own first', () => {
  const imports = new Imports(ROOT)
  const [first, ...others] = imports.testsOf('src/operation/lease-heartbeat.ts')
  expect(first).toBe('src/operation/lease-heartbeat.test.ts')
  expect(others).toContain('test/protocol/leased.test.ts')
  expect(imports.testsOf('src/key/decimal.ts').slice(0, 1)).toEqual(['src/key/decimal.test.ts'])
  expect(imports.testsOf('src/store/postgres/sql/answer.ts')[0]).toBe('src/testing/contract/pg.test.ts')
  expect([isLong('test/broker/kafka.test.ts'), isLong('test/protocol/sweep.test.ts')]).toEqual([true, true])
  expect([isLong('src/operation/lease-heartbeat.test.ts'), isLong('test/protocol/atomic.test.ts')]).toEqual([
    false,
    false,
  ])
})

test('the tests of the command line start it as a program, and import nothing of it', () => {
  const tests = new Imports(ROOT).testsOf('src/cli/grants.ts')
  expect(tests).toContain('test/cli/grants.test.ts')
})

test('every change that is listed as equivalent still exists', async () => {
  for (const { file, text: line, from, to, why } of EQUIVALENT) {
    const sites = await sitesOf([{ path: file, text: await readFile(join(ROOT, file), 'utf8') }])
    const found = sites.flat().filter((change) => change.text === line && change.from === from && change.to === to)
    expect([file, line, found.length]).toEqual([file, line, 1])
    expect(equivalentTo(found[0] as Mutation)?.why).toBe(why)
  }
})

test('the innermost range says whether a place was executed', () => {
  const ranges = { 'src/a.ts': [[0, 0, 20, 0, 1] as const, [5, 10, 9, 1, 0] as const, [7, 0, 7, 30, 1] as const] }
  const at = (line: number, column: number): boolean => reaches({ elsewhere: false, ranges }, 'src/a.ts', line, column)
  expect([at(4, 0), at(5, 9), at(5, 10), at(7, 5), at(9, 0), at(9, 1)]).toEqual([true, true, false, true, false, true])
  expect(reaches({ elsewhere: false, ranges }, 'src/b.ts', 0, 0)).toBe(false)
  expect(reaches({ elsewhere: true, ranges }, 'src/b.ts', 0, 0)).toBe(true)
})

test('verdicts are kept: the next piece of the run goes on, and the last verdict counts', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'effectively-once-results-'))
  const file = join(folder, 'results.jsonl')
  try {
    const [first, second, third] = (await sample([{ path, text }], 3, 1)) as [Mutation, Mutation, Mutation]
    const before = new Results(file)
    before.add(first, { kind: 'killed', why: 'a' })
    before.add(second, { kind: 'survived', why: 'b' })
    const after = new Results(file)
    expect([after.of(first)?.kind, after.of(second)?.kind, after.of(third)]).toEqual(['killed', 'survived', undefined])
    expect(after.of({ ...first, to: 'another change' })).toBeUndefined()
    expect(after.summary([first, second, third])).toMatchObject({ sites: 2, killed: 1, survived: [{ why: 'b' }] })
    after.add(second, { kind: 'killed', why: 'c' })
    expect(new Results(file).summary([first, second, third])).toMatchObject({ sites: 2, killed: 2, survived: [] })
  } finally {
    await rm(folder, { recursive: true })
  }
})
