import { dirname } from 'node:path/posix'
import { describe, expect, it } from 'vitest'
import { graphOf, type Graph } from './support/import-graph.ts'
import { makeSource, productSources, type Source } from './support/sources.ts'

/** The simulator is a test, not product: its world and what lives in it know each other. */
const product = productSources().filter(({ path }) => !path.startsWith('src/testing/sim/'))

describe('imports', () => {
  it('of files have no cycle', () => {
    expect(cyclesOf(graphOf(product, (path) => path))).toEqual([])
  })
  it('of folders have no cycle', () => {
    expect(cyclesOf(graphOf(product, folderOf))).toEqual([])
  })
  it('have none in these examples either, but where one was made', () => {
    const source = (path: string, target: string): Source =>
      makeSource(path, `import type { X } from '${target}'\nexport type Y = X`)
    const files = [source('src/a/b.ts', '../c/d.ts'), source('src/c/e.ts', '../a/f.ts'), source('src/g.ts', './a/b.ts')]
    expect(cyclesOf(graphOf(files, (path) => path))).toEqual([])
    expect(cyclesOf(graphOf(files, folderOf))).toEqual(['src/a -> src/c', 'src/c -> src/a'])
  })
})

/** The files of `src` itself stand for themselves: the foundation is below everything, the index above. */
function folderOf(path: string): string {
  return dirname(path) === 'src' ? path : dirname(path)
}

/** The arrows that are part of a cycle: their end leads back to their beginning. */
function cyclesOf(graph: Graph): string[] {
  return [...graph]
    .flatMap(([from, targets]) =>
      [...targets].filter((to) => reachedFrom(graph, to).has(from)).map((to) => `${from} -> ${to}`),
    )
    .toSorted()
}

function reachedFrom(graph: Graph, start: string): Set<string> {
  const reached = new Set([start])
  // A set that grows is read to its end.
  for (const node of reached) for (const target of graph.get(node) ?? []) reached.add(target)
  return reached
}
