import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { isLong } from './long.ts'
import { Imports } from './related.ts'
import { mutated, sample, sitesOf } from './sites.ts'

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
  // Prose is nobody's decision.
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
