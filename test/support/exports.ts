import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeSource, targetOf, type Source } from './sources.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const FOLDERS = ['src', 'test', 'scripts', 'bench', 'examples']

/** Every TypeScript file of the repository, tests and examples included: whoever may use an export. */
export function allSources(): Source[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
      .filter((path) => path.endsWith('.ts') && !/(^|\/)(generated|node_modules)\//.test(path))
      .map((path) => makeSource(path, readFileSync(join(root, path), 'utf8'))),
  )
}

/** The names a file declares and exports itself; what it only passes on counts where it was declared. */
export function exportsOf({ code }: Source): string[] {
  const declared = code.matchAll(
    /^export\s+(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:const|let|function\*?|class|interface|type)\s+(\w+)/gm,
  )
  const listed = [...code.matchAll(/^export\s+(?:type\s+)?\{([^}]*)\}(?!\s*from)/gm)].flatMap(([, names = '']) =>
    names.split(',').map((name) => /(\w+)\s*$/.exec(name.trim())?.[1] ?? ''),
  )
  return [...new Set([...[...declared].map(([, name = '']) => name), ...listed])].filter((name) => name !== '')
}

/** `path name` of everything this file takes from others; `path *` where it takes a whole module. */
export function usesOf(source: Source): string[] {
  const named = source.code.matchAll(
    /\b(?:import|export)\s+(?:type\s+)?(?:\w+\s*,\s*)?\{([^}]*)\}\s*from\s*(['"])([^'"\n]+)\2/g,
  )
  const whole = source.code.matchAll(
    /\b(?:import|export)\s+(?:type\s+)?\*(?:\s+as\s+\w+)?\s+from\s*(['"])([^'"\n]+)\1/g,
  )
  const called = source.code.matchAll(/\bimport\s*\(\s*(['"])([^'"\n]+)\1/g)
  const all = [...[...whole].map((match) => match[2] ?? ''), ...[...called].map((match) => match[2] ?? '')]
  return [
    ...[...named].flatMap(([, names = '', , specifier = '']) => {
      const target = targetOf(source, specifier)
      if (target === undefined) return []
      return names.split(',').flatMap((name) => {
        const taken = /^(?:type\s+)?(\w+)/.exec(name.trim())?.[1]
        return taken === undefined ? [] : [`${target} ${taken}`]
      })
    }),
    ...all.flatMap((specifier) => {
      const target = targetOf(source, specifier)
      return target === undefined ? [] : [`${target} *`]
    }),
  ]
}

/** Every file that is loaded when this one is: values, not types, and nothing that waits for a call. */
export function loadedWith(path: string, sources: readonly Source[]): Set<string> {
  const byPath = new Map(sources.map((source) => [source.path, source]))
  const loaded = new Set<string>()
  const queue = [path]
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const source = byPath.get(next)
    if (!source || loaded.has(next)) continue
    loaded.add(next)
    for (const { kind, specifier } of source.imports) {
      const target = targetOf(source, specifier)
      if (kind === 'value' && target !== undefined) queue.push(target)
    }
  }
  return loaded
}
