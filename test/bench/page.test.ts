import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { barChart } from '../../bench/results/chart.ts'
import { pagesOf } from '../../bench/results/pages.ts'
import { readResults } from '../../bench/results/store.ts'
import { markdownTable, withBlocks } from '../../bench/results/table.ts'

const read = (path: string): string => readFileSync(path, 'utf8')

it.each([...pagesOf(readResults(), read)])('%s says what bench/results.json says', (path, text) => {
  expect(read(path), 'npm run bench:page writes it').toBe(text)
})

it('a figure that was changed by hand is noticed', () => {
  const results = readResults()
  const found = results.peers?.http?.cpu?.['fastify.bare']
  expect(found, 'npm run bench:peers -- --write').toBeDefined()
  const { peers } = results
  const other = { ...found, process: (found?.process ?? 0) + 100 }
  const cpu = { ...peers?.http?.cpu, 'fastify.bare': other }
  const changed = { ...results, peers: { ...peers, http: { ...peers?.http, cpu } } } as typeof results
  const differing = [...pagesOf(changed, read)].filter(([path, text]) => read(path) !== text)
  expect(differing.map(([path]) => path)).toEqual(['docs/cost.md', 'docs/cost.svg'])
})

it('a table stands as Prettier leaves it', () => {
  const table = markdownTable(
    ['name', 'figure'],
    [
      ['a', '1,000'],
      ['long name', '2'],
    ],
  )
  expect(table).toBe('| name      | figure |\n| --------- | -----: |\n| a         |  1,000 |\n| long name |      2 |')
})

it('a block is put between its comments, and needs them', () => {
  const page = 'before\n\n<!-- x -->\nold\n<!-- /x -->\n\nafter'
  expect(withBlocks(page, { x: 'new' })).toBe('before\n\n<!-- x -->\n\nnew\n\n<!-- /x -->\n\nafter')
  expect(() => withBlocks(page, { y: '' })).toThrow('the page has no place for y')
})

it('a chart draws each bar in proportion', () => {
  const svg = barChart(
    'T & <t>',
    ['a', 'b'],
    [
      { title: 'short', process: 10, server: 10, isOurs: false },
      { title: 'long', process: 20, server: 20, isOurs: true },
    ],
  )
  const widths = [...svg.matchAll(/<rect x="[^"]+" y="(?:64|90)" width="([^"]+)"/g)].map(([, width]) => Number(width))
  const [first = 0, , third = 0] = widths
  expect(widths).toHaveLength(4)
  expect(third).toBeCloseTo(first * 2, 1)
  expect(svg).toContain('T &amp; &lt;t>')
})
