import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { graphOf } from './support/import-graph.ts'
import { productSources } from './support/sources.ts'

const LINES_MAX = 150
const FOUNDATION = 'foundation'
const FOUNDATION_PATHS =
  /^src\/(errors\.ts|coded-error\.ts|options\.ts|limits\.ts|duration\.ts|invariant\.ts|platform\/)/

const page = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8')
const sources = productSources()

/** The drawing, from top to bottom: each line a layer's name and its folders. */
const layers = (/```text\n([\s\S]*?)```/.exec(page)?.[1] ?? '')
  .trimEnd()
  .split('\n')
  .map((line) => line.trim().split(/\s+/).slice(1))

/** The table: each folder with what it imports. */
const drawn = new Map(
  [...page.matchAll(/^\| `([^`]+)` +\|[^|]*\|([^|]*)\|$/gm)].map(([, folder = '', imports = '']) => [
    folder,
    [...imports.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
  ]),
)

const byLength = [...drawn.keys()].toSorted((a, b) => b.length - a.length)

/** A folder without a row of its own belongs to the one above it. */
function rowOf(path: string): string {
  if (FOUNDATION_PATHS.test(path)) return FOUNDATION
  return byLength.find((row) => path === `src/${row}` || path.startsWith(`src/${row}/`)) ?? path
}

describe('docs/architecture.md', () => {
  it('draws every folder, and what each of them imports', () => {
    const real = [...graphOf(sources, rowOf)].map(
      ([row, targets]) => [row, [...targets].filter((target) => target !== FOUNDATION).toSorted()] as const,
    )
    const said = [...drawn].map(([row, imports]) => [row, imports.toSorted()] as const)
    expect(Object.fromEntries(said)).toEqual(Object.fromEntries(real))
  })

  it('has every folder in one layer, and arrows that point down', () => {
    expect(layers.flat().toSorted()).toEqual([...drawn.keys()].toSorted())
    const layerOf = (row: string): number => layers.findIndex((layer) => layer.includes(row))
    const up = [...drawn].flatMap(([row, imports]) =>
      imports.filter((target) => layerOf(target) <= layerOf(row)).map((target) => `${row} -> ${target}`),
    )
    expect(up).toEqual([])
  })

  it('names files and functions that exist', () => {
    const named = [...page.matchAll(/`([\w-]+(?:\/[\w-]+)+\.ts)`(?: `(\w+)`)?/g)]
    expect(named.length).toBeGreaterThan(30)
    const missing = named.filter(([, path = '', name]) => {
      const file = path.startsWith('test/') ? { code: '' } : sources.find((source) => source.path === `src/${path}`)
      return file === undefined || (name !== undefined && !new RegExp(`\\b${name}\\b`).test(file.code))
    })
    expect(missing.map(([text]) => text)).toEqual([])
  })

  it(`has at most ${LINES_MAX} lines`, () => {
    expect(page.trimEnd().split('\n').length).toBeLessThanOrEqual(LINES_MAX)
  })
})
