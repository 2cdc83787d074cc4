import { targetOf, type Source } from './sources.ts'

export type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Who imports whom, types included. A node may stand for many files; what it imports of itself is left out. */
export function graphOf(sources: readonly Source[], nodeOf: (path: string) => string): Graph {
  const graph = new Map<string, Set<string>>()
  for (const source of sources) {
    const from = nodeOf(source.path)
    const targets = graph.get(from) ?? new Set<string>()
    graph.set(from, targets)
    for (const { specifier } of source.imports) {
      const target = targetOf(source, specifier)
      if (target !== undefined && nodeOf(target) !== from) targets.add(nodeOf(target))
    }
  }
  return graph
}
