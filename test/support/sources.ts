import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

export interface Import {
  readonly specifier: string
  /** A type import leaves nothing behind at run time; a lazy one is `await import(...)`. */
  readonly kind: 'value' | 'type' | 'lazy'
}

export interface Source {
  /** Relative to the repository, with forward slashes: `src/key/parse.ts`. */
  readonly path: string
  /** The first folder below `src`, or '' for a file directly in it. */
  readonly folder: string
  readonly text: string
  /** The text without comments. */
  readonly code: string
  readonly imports: readonly Import[]
}

/** Every source file of the product below `src`, tests left out. */
export function productSources(): Source[] {
  const start = join(root, 'src')
  if (!existsSync(start)) return []
  return readdirSync(start, { recursive: true, encoding: 'utf8' })
    .map((name) => posix.join('src', name.replaceAll('\\', '/')))
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.includes('/generated/'))
    .toSorted()
    .map((path) => makeSource(path, readFileSync(join(root, path), 'utf8')))
}

export function makeSource(path: string, text: string): Source {
  const parts = path.split('/')
  const code = withoutComments(text)
  return { path, folder: parts.length > 2 ? (parts[1] ?? '') : '', text, code, imports: importsOf(code) }
}

export function readManifest(): {
  exports: Record<string, string | Record<string, string>>
  dependencies?: Record<string, string>
  peerDependencies: Record<string, string>
  peerDependenciesMeta: Record<string, { optional?: boolean }>
} {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}

/** The path a relative specifier points to, or undefined for a package. */
export function targetOf(source: Source, specifier: string): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(source.path), specifier) : undefined
}

/** The package of a bare specifier (`@scope/name/deep` → `@scope/name`), or undefined for files and Node's modules. */
export function packageOf(specifier: string): string | undefined {
  if (/^(\.|#|node:)/.test(specifier)) return undefined
  const parts = specifier.split('/')
  return specifier.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0]
}

function importsOf(code: string): Import[] {
  const statements = code.matchAll(/\b(?:import|export)\s+(type\s+)?(?:[\w*{][^'"`;]*?\bfrom\s*)?(['"])([^'"\n]+)\2/g)
  const calls = code.matchAll(/(\bawait\s+)?\bimport\s*\(\s*(['"`])([^'"`\n]+)\2/g)
  return [
    ...[...statements].map((match): Import => ({ kind: match[1] ? 'type' : 'value', specifier: match[3] ?? '' })),
    ...[...calls].map((match): Import => ({ kind: match[1] ? 'lazy' : 'type', specifier: match[3] ?? '' })),
  ]
}

/** Strings come first in the pattern, so that `//` inside one is no comment. */
function withoutComments(text: string): string {
  const tokens = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g
  return text.replace(tokens, (token) => (/^\/[/*]/.test(token) ? ' ' : token))
}
