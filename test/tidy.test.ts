import { describe, expect, it } from 'vitest'
import { makeSource, packageOf, productSources, readManifest, targetOf } from './support/sources.ts'
import type { Source } from './support/sources.ts'

const FILE_LINES_MAX = 350
const ENTRY_LINES_MAX = 10

/** Time and chance reach these folders only through `Clock` and `Random`, so that the simulator can own them. */
const FOLDERS_WITHOUT_CLOCK = ['key', 'lifecycle', 'operation', 'outbox', 'consumer', 'once', 'client']
const CLOCKS =
  /\bDate\.now\b|\bnew Date\(\s*\)|\bMath\.random\b|(?:(?<![.\w])|globalThis\.)(?:setTimeout|setInterval|setImmediate)\s*\(|\bperformance\.now\b|\bprocess\.hrtime\b|\brandomUUID\b|\brandomBytes\b|\bgetRandomValues\b/g

/** The foundation: what `key` and `lifecycle` may import beside themselves. */
const FOUNDATION = /^src\/(errors\.ts|coded-error\.ts|options\.ts|limits\.ts|invariant\.ts|platform\/)/

/** Nobody imports these but themselves and `entry`. The command line may use `testing`. */
const LEAVES = ['testing', 'cli', 'dashboard', 'entry']
/** Programs for users stand in their strings. */
const TEMPLATES = /^src\/cli\/init(?:-clients|-frameworks)?\.ts$/

const sources = productSources()
const manifest = readManifest()
const peers = new Set(Object.keys(manifest.peerDependencies))

/** One line per offence, so that a failure reads as a list of things to repair. */
function offences(rule: (source: Source) => readonly string[], among: readonly Source[] = sources): string[] {
  return among.flatMap((source) => rule(source).map((what) => `${source.path}: ${what}`))
}

function folderOf(path: string): string {
  return /^src\/([^/]+)\//.exec(path)?.[1] ?? ''
}

function brokerOf(path: string): string | undefined {
  return /^src\/broker\/([^/]+)\//.exec(path)?.[1]
}

const rules = {
  selfContained(source: Source) {
    if (!['key', 'lifecycle'].includes(source.folder)) return []
    return source.imports.flatMap(({ specifier }) => {
      const target = targetOf(source, specifier)
      const allowed = target !== undefined && (folderOf(target) === source.folder || FOUNDATION.test(target))
      return allowed ? [] : [`imports ${specifier}`]
    })
  },
  belowOnce(source: Source) {
    if (!['store', 'outbox'].includes(source.folder)) return []
    return importsInto(source, ['operation', 'consumer', 'once', 'http'])
  },
  aboveOnce(source: Source) {
    if (['http', 'mcp', 'telemetry', 'reconciliation', 'entry', 'testing', 'cli'].includes(source.folder)) return []
    const isFacade = source.folder === 'once' || source.path === 'src/index.ts'
    return importsInto(source, isFacade ? ['http'] : ['once', 'http'])
  },
  leaves(source: Source) {
    return importsInto(
      source,
      LEAVES.filter(
        (leaf) => leaf !== source.folder && !(['entry', 'cli'].includes(source.folder) && leaf === 'testing'),
      ),
    )
  },
  brokers(source: Source) {
    if (['entry', 'cli'].includes(source.folder)) return []
    return source.imports.flatMap(({ specifier }) => {
      const broker = brokerOf(targetOf(source, specifier) ?? '')
      return broker === undefined || broker === brokerOf(source.path) ? [] : [`imports ${specifier}`]
    })
  },
  packages(source: Source) {
    if (TEMPLATES.test(source.path)) return []
    return source.imports.flatMap(({ specifier, kind }) => {
      const name = packageOf(specifier)
      if (name === undefined) return []
      const lazyPeer = kind === 'lazy' && peers.has(name)
      const peerType = kind === 'type' && peers.has(name) && !['store', 'entry'].includes(source.folder)
      return lazyPeer || peerType ? [] : [`imports ${specifier} (${kind})`]
    })
  },
  clocks(source: Source) {
    if (!FOLDERS_WITHOUT_CLOCK.includes(source.folder)) return []
    return [...source.code.matchAll(CLOCKS)].map(([what]) => `uses ${what}`)
  },
  defaultExports(source: Source) {
    return /\bexport\s+default\b|\bas\s+default\b/.test(source.code) ? ['has a default export'] : []
  },
  importMeta(source: Source) {
    if (['testing', 'cli'].includes(source.folder)) return []
    return /\bimport\.meta\b/.test(source.code) ? ['uses import.meta, which require() of the package cannot load'] : []
  },
  length(source: Source) {
    const lines = source.text.trimEnd().split('\n').length
    const max = source.folder === 'entry' ? ENTRY_LINES_MAX : FILE_LINES_MAX
    return lines > max ? [`has ${lines} lines, at most ${max}`] : []
  },
}

function importsInto(source: Source, folders: readonly string[]): string[] {
  return source.imports.flatMap(({ specifier }) => {
    const target = targetOf(source, specifier)
    return target !== undefined && folders.includes(folderOf(target)) ? [`imports ${specifier}`] : []
  })
}

describe('imports', () => {
  it('key and lifecycle stand on the foundation alone', () => {
    expect(offences(rules.selfContained)).toEqual([])
  })
  it('store and outbox know nothing of operations, consumers, instances and http', () => {
    expect(offences(rules.belowOnce)).toEqual([])
  })
  it('nothing below the facade imports it, and http is imported by its entries alone', () => {
    expect(offences(rules.aboveOnce)).toEqual([])
  })
  it('testing, cli, dashboard and entry are imported by nobody', () => {
    expect(offences(rules.leaves)).toEqual([])
  })
  it('a broker is one folder, which its entry and the command line alone import', () => {
    expect(offences(rules.brokers)).toEqual([])
    const folders = new Set(sources.flatMap(({ path }) => brokerOf(path) ?? []))
    expect([...folders].filter((name) => manifest.exports[`./${name}`] === undefined)).toEqual([])
  })
  it('no package is imported, optional peers lazily or as types outside stores', () => {
    expect(offences(rules.packages)).toEqual([])
  })
})

describe('source files', () => {
  it('take time and chance from Clock and Random', () => {
    expect(offences(rules.clocks)).toEqual([])
  })
  it('have no default export', () => {
    expect(offences(rules.defaultExports)).toEqual([])
  })
  it('can be loaded by require()', () => {
    expect(offences(rules.importMeta)).toEqual([])
  })
  it('are short', () => {
    expect(offences(rules.length)).toEqual([])
  })
})

describe('the manifest', () => {
  const entries = sources.filter((source) => source.folder === 'entry')

  it.skipIf(entries.length === 0)('exports exactly the files of src/entry', () => {
    const expected = {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      ...Object.fromEntries(
        entries.map(({ path }) => {
          const name = path.slice('src/entry/'.length, -'.ts'.length)
          return [`./${name}`, { types: `./dist/entry/${name}.d.ts`, default: `./dist/entry/${name}.js` }]
        }),
      ),
      './package.json': './package.json',
    }
    expect(manifest.exports).toEqual(expected)
  })
  it('has no dependencies, and only optional peers', () => {
    expect(manifest.dependencies ?? {}).toEqual({})
    expect([...peers].filter((peer) => !manifest.peerDependenciesMeta[peer]?.optional)).toEqual([])
  })
})

describe('the rules themselves', () => {
  const check = (rule: (source: Source) => readonly string[], path: string, text: string) =>
    offences(rule, [makeSource(path, text)]).length

  it('see every kind of import', () => {
    const text = [
      `import a from 'a'`,
      `import type { B } from 'b/deep'`,
      `import {\n  c,\n} from '@c/c/deep'`,
      `import 'd'`,
      `export { e } from 'e'`,
      `export * from 'f'`,
      `const g = await import('g')`,
      `let h: import('h').H`,
      `// import i from 'i'`,
      `/* import j from 'j' */`,
      `const url = 'http://k' // import k from 'k'`,
    ].join('\n')
    expect(
      makeSource('src/x.ts', text).imports.map(({ specifier, kind }) => `${packageOf(specifier)} ${kind}`),
    ).toEqual(['a value', 'b type', '@c/c value', 'd value', 'e value', 'f value', 'g lazy', 'h type'])
  })
  it('refuse what they are for', () => {
    expect(check(rules.selfContained, 'src/key/a.ts', `import { b } from '../once/b.ts'`)).toBe(1)
    expect(check(rules.selfContained, 'src/key/a.ts', `import { b } from '../errors.ts'`)).toBe(0)
    expect(check(rules.belowOnce, 'src/store/postgres/a.ts', `import { b } from '../../once/b.ts'`)).toBe(1)
    expect(check(rules.aboveOnce, 'src/source/a.ts', `import { b } from '../http/b.ts'`)).toBe(1)
    expect(check(rules.aboveOnce, 'src/operation/a.ts', `import type { B } from '../once/b.ts'`)).toBe(1)
    expect(check(rules.aboveOnce, 'src/once/a.ts', `import { b } from './b.ts'`)).toBe(0)
    expect(check(rules.aboveOnce, 'src/entry/a.ts', `export { b } from '../http/b.ts'`)).toBe(0)
    expect(check(rules.leaves, 'src/once/a.ts', `import { b } from '../testing/b.ts'`)).toBe(1)
    expect(check(rules.leaves, 'src/entry/testing.ts', `export * from '../testing/b.ts'`)).toBe(0)
    expect(check(rules.brokers, 'src/broker/redis/a.ts', `import { b } from '../nats/b.ts'`)).toBe(1)
    expect(check(rules.brokers, 'src/broker/redis/a.ts', `import { b } from './b.ts'`)).toBe(0)
    expect(check(rules.packages, 'src/store/pg.ts', `import type { Pool } from 'pg'`)).toBe(1)
    expect(check(rules.packages, 'src/store/sqlite.ts', `const x = await import('libsql')`)).toBe(0)
    expect(check(rules.clocks, 'src/once/a.ts', `setTimeout(f, 1); new Date(); Date.now(); Math.random()`)).toBe(4)
    expect(check(rules.clocks, 'src/once/a.ts', `clock.setTimeout(f, 1); new Date(ms) // Date.now()`)).toBe(0)
    expect(check(rules.defaultExports, 'src/a.ts', `export default 1`)).toBe(1)
    expect(check(rules.length, 'src/a.ts', 'x\n'.repeat(FILE_LINES_MAX + 1))).toBe(1)
    expect(check(rules.length, 'src/entry/a.ts', 'x\n'.repeat(ENTRY_LINES_MAX + 1))).toBe(1)
  })
})
