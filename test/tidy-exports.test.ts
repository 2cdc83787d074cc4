import { describe, expect, it } from 'vitest'
import { allSources, exportsOf, loadedWith, usesOf } from './support/exports.ts'
import { SUBPATHS } from '../scripts/subpaths.ts'
import { makeSource, productSources } from './support/sources.ts'

const all = allSources()
/** What `init` writes into a project looks like exports. */
const TEMPLATES = 'src/cli/init-'
const product = productSources().filter(({ path }) => !path.startsWith(TEMPLATES))

/** A ceiling, to be lowered. */
const AT_HOME_MAX = 9

describe('exports', () => {
  const used = new Set(all.flatMap(usesOf))
  const unused = product.flatMap((source) =>
    used.has(`${source.path} *`)
      ? []
      : exportsOf(source)
          .filter((name) => !used.has(`${source.path} ${name}`))
          .map((name) => ({ source, name, times: source.code.match(new RegExp(`\\b${name}\\b`, 'g'))?.length ?? 0 })),
  )

  it('are used by somebody', () => {
    expect(unused.filter(({ times }) => times < 2).map(({ source, name }) => `${source.path}: ${name}`)).toEqual([])
  })

  it('are exported for somebody: what is used at home alone is a warning, and no more than there are', () => {
    // Types are part of their functions' signatures, and fine.
    const atHome = unused.filter(({ source, name }) => !new RegExp(`\\b(interface|type) ${name}\\b`).test(source.code))
    const lines = atHome.map(({ source, name }) => `  ${source.path}: ${name}`)
    if (lines.length > 0)
      console.warn(`${lines.length} values are exported and used at home alone:\n${lines.join('\n')}`)
    expect(lines.length).toBeLessThanOrEqual(AT_HOME_MAX)
  })

  it('of the core are in one place: no subpath exports what the core does', () => {
    const core = new Set(makeSource('src/index.ts', textOf('src/index.ts')).code.match(/\b\w+\b/g))
    const twice = product
      .filter(({ folder }) => folder === 'entry')
      .flatMap((source) => usesOf(source).map((use) => ({ entry: source.path, name: use.split(' ')[1] ?? '' })))
      .filter(({ name }) => /^[a-z]/.test(name) && core.has(name))
    expect(twice).toEqual([])
  })
})

describe('a store', () => {
  const stores = Object.keys(SUBPATHS).filter((name) => SUBPATHS[name]?.kind === 'store')
  it.each(stores)('%s loads neither relay nor consumer, neither HTTP nor testing nor the command line', (name) => {
    const loaded = [...loadedWith(`src/entry/${name}.ts`, product)]
    expect(loaded.length).toBeGreaterThan(3)
    const wrong =
      /^src\/(cli|testing|http|once|operation|consumer|broker|sink|source)\/|^src\/outbox\/(relay|sender|shard-leases)/
    expect(loaded.filter((path) => wrong.test(path))).toEqual([])
  })
})

describe('the rules themselves', () => {
  it('see what is declared and what is used', () => {
    const source = makeSource(
      'src/a/b.ts',
      [
        'export const one = 1',
        'export async function two(): Promise<void> {}',
        'export interface Three {}',
        'const four = 4',
        'export { four }',
        `export { five } from './c.ts'`,
        `import { six, type Seven as Other } from '../d.ts'`,
        `import * as eight from './e.ts'`,
        '// export const nine = 9',
      ].join('\n'),
    )
    expect(exportsOf(source)).toEqual(['one', 'two', 'Three', 'four'])
    expect(usesOf(source)).toEqual(['src/a/c.ts five', 'src/d.ts six', 'src/d.ts Seven', 'src/a/e.ts *'])
  })
})

function textOf(path: string): string {
  const found = product.find((source) => source.path === path)
  if (!found) throw new Error(`there is no ${path}`)
  return found.text
}
