import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SUBPATHS } from '../scripts/subpaths.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
const TIMEOUT_MS = 180_000
/**
 * What may be packed, in kB. Declarations are counted with their comments, which editors show. What the package had before
 * may have 300 kB. `verify` and the faults of relays and consumers in `simulate` have 8 more. `init`, `completion` and
 * `relay --to` have 8 more. Telemetry has 8, and mended defects 7. Redis, the tier and erasure have 32. The client, SQS,
 * Lambda, streams, sagas, reconciliation, tools of agents and the helpers without a key have 39, and 18 of declarations.
 */
const JAVASCRIPT_KB_MAX = 406
const DECLARATIONS_KB_MAX = 126
/** Docs, examples and the names of files. They are read, not loaded. */
const TEXTS_KB_MAX = 500
/** Decorators are the framework's own. */
const NEEDS_PEER = new Set(['./nest'])

interface Manifest {
  readonly files: readonly string[]
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
  readonly dependencies?: Readonly<Record<string, string>>
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, [...args], { cwd })
    return stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** What a user gets: built, packed and installed in a project of its own, without any network. */
describe('the package', () => {
  let folder: string
  let project: string
  let tarball: string
  let packed: string[]
  let manifest: Manifest

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'effectively-once-package-'))
    const stage = join(folder, 'stage')
    await mkdir(stage)
    // Built beside the tree: a leftover in dist must not be packed, and nobody else's build is disturbed.
    await run(process.execPath, ['--import', 'tsx', join('scripts', 'build.ts'), join(stage, 'dist')], root)
    manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Manifest
    const named = manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!'))
    for (const name of ['package.json', 'README.md', 'LICENSE', ...named]) {
      await cp(join(root, name), join(stage, name), { recursive: true })
    }
    const output = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], stage)
    const [{ filename, files }] = JSON.parse(output) as [{ filename: string; files: { path: string }[] }]
    tarball = join(folder, filename)
    packed = files.map(({ path }) => path)
    project = join(folder, 'project')
    await mkdir(project)
    await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'project', type: 'module', private: true }))
    await run('npm', ['i', '--offline', '--ignore-scripts', tarball], project)
    // The only other packages there are: pg and the types it needs.
    for (const name of ['pg', '@types/pg', '@types/node', 'libsql']) await link(name)
  }, TIMEOUT_MS)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function link(name: string): Promise<void> {
    const target = join(project, 'node_modules', name)
    await mkdir(dirname(target), { recursive: true })
    await symlink(join(root, 'node_modules', name), target)
  }

  async function runFile(name: string, code: string): Promise<string> {
    await writeFile(join(project, name), code)
    return run(process.execPath, [name], project)
  }

  it('holds what it exports, and nothing that belongs to its making', () => {
    const wanted = Object.values(manifest.exports).flatMap((target) =>
      typeof target === 'string' ? [target] : [target.types, target.default],
    )
    expect(wanted.filter((path) => !packed.includes(path.slice('./'.length)))).toEqual([])
    const known = [
      /^dist\/.*\.(js|d\.ts)$/,
      /^docs\/[\w-]+\.(md|png|svg)$/,
      /^observability\/[\w-]+\.(json|yml)$/,
      /^examples\/(?!story\/)(?!.*\bgenerated\b).*\.(ts|prisma|js|html|css|svg|json)$/,
      /^(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md$/,
      /^(LICENSE|package\.json)$/,
    ]
    expect(packed.filter((path) => !known.some((pattern) => pattern.test(path)))).toEqual([])
    expect(packed.filter((path) => /\.(test|bench)\./.test(path))).toEqual([])
  })

  it('holds every file that its examples import, except clients that Prisma generates', async () => {
    const dead: string[] = []
    for (const path of packed.filter((one) => /^examples\/.*\.ts$/.test(one))) {
      const text = await readFile(join(folder, 'stage', path), 'utf8')
      for (const [, to = ''] of text.matchAll(/^(?:import|export)\b[^'\n]* from '(\.[^']+)'/gm)) {
        const target = join(dirname(path), to)
        if (!packed.includes(target) && !target.includes('/generated/')) dead.push(`${path}: ${to}`)
      }
    }
    expect(dead).toEqual([])
  })

  it('holds no simulator, and only folders that exist', async () => {
    expect(packed.filter((path) => /\/(sim|differential)\//.test(path))).toEqual([])
    const there = await readdir(join(folder, 'stage'))
    expect(manifest.files.filter((name) => !name.startsWith('!') && !there.includes(name))).toEqual([])
    const testing = await runFile(
      'testing.mjs',
      `console.log(Object.keys(await import('effectively-once/testing')).join())`,
    )
    for (const name of ['simulate', 'verify', 'storeContract', 'sourceContract', 'httpContract'])
      expect(testing).toContain(name)
  })

  it(`packs at most ${JAVASCRIPT_KB_MAX} kB of JavaScript and ${DECLARATIONS_KB_MAX} kB of declarations`, async () => {
    const weigh = async (ending: string): Promise<number> => {
      const paths = packed.filter((path) => path.startsWith('dist/') && path.endsWith(ending))
      const texts = await Promise.all(paths.map((path) => readFile(join(folder, 'stage', path))))
      return gzipSync(Buffer.concat(texts), { level: 9 }).length / 1_000
    }
    const [javascript, declarations] = [await weigh('.js'), await weigh('.d.ts')]
    const tarballKb = (await readFile(tarball)).length / 1_000
    console.table({ javascript, declarations, tarball: tarballKb, files: packed.length })
    expect(javascript).toBeLessThanOrEqual(JAVASCRIPT_KB_MAX)
    expect(declarations).toBeLessThanOrEqual(DECLARATIONS_KB_MAX)
    expect(tarballKb).toBeLessThanOrEqual(JAVASCRIPT_KB_MAX + DECLARATIONS_KB_MAX + TEXTS_KB_MAX)
  })

  it('passes publint', async () => {
    const { messages, pkg } = await publint({ pkgDir: join(folder, 'stage'), pack: false, strict: true })
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([])
  })

  it(
    'has types that every way of resolving modules finds, as far as ESM reaches',
    async () => {
      const { problems = [] } = { ...(await checkPackage(createPackageFromTarballData(await readFile(tarball)))) } as {
        problems?: readonly { kind: string; resolutionKind?: string; resolutionOption?: string; entrypoint?: string }[]
      }
      // What the profile "esm-only" leaves out: node10 knows no exports, and require() needs Node 20.19.
      const told = problems.filter(
        ({ kind, resolutionKind, resolutionOption }) =>
          kind !== 'CJSResolvesToESM' && resolutionKind !== 'node10' && resolutionOption !== 'node10',
      )
      expect(told).toEqual([])
    },
    TIMEOUT_MS,
  )

  it('installs alone: no dependency comes with it', async () => {
    expect(manifest.dependencies).toBeUndefined()
    const installed = await readdir(join(project, 'node_modules'))
    expect(installed.filter((name) => !name.startsWith('.')).toSorted()).toEqual([
      '@types',
      'effectively-once',
      'libsql',
      'pg',
    ])
  })

  const LOAD = `console.log(typeof core.effectivelyOnce, typeof sqlite.sqliteStore, typeof pg.pgStore)`

  it('tells the story from the command line', { timeout: TIMEOUT_MS }, async () => {
    const cli = join(project, 'node_modules', 'effectively-once', 'dist', 'cli', 'main.js')
    expect(await run(process.execPath, [cli, 'demo'], project)).toContain('one charge and one receipt per key')
  })

  it('is imported from a module', async () => {
    const code = `import * as core from 'effectively-once'
      import * as pg from 'effectively-once/pg'
      import * as sqlite from 'effectively-once/sqlite'
      ${LOAD}`
    expect(await runFile('load.mjs', code)).toBe('function function function\n')
  })

  it('is required from a script', async () => {
    const code = `const core = require('effectively-once')
      const pg = require('effectively-once/pg')
      const sqlite = require('effectively-once/sqlite')
      ${LOAD}`
    expect(await runFile('load.cjs', code)).toBe('function function function\n')
  })

  it('runs an operation once, required from a script', async () => {
    const code = `const { effectivelyOnce } = require('effectively-once')
      const { sqliteStore } = require('effectively-once/sqlite')
      const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: ':memory:' }), guard: 'off' })
      let ran = 0
      once.migrate()
        .then(() => once.run({ scope: 'global', key: 'a', input: 1 }, async () => ++ran))
        .then(() => once.run({ scope: 'global', key: 'a', input: 1 }, async () => ++ran))
        .then(() => once.close())
        .then(() => console.log(ran))`
    expect(await runFile('run.cjs', code)).toBe('1\n')
  })

  it('loads every subpath without its client or framework, imported and required', async () => {
    const subpaths = Object.keys(manifest.exports).filter((path) => path !== './package.json' && !NEEDS_PEER.has(path))
    expect(subpaths.length).toBeGreaterThan(15)
    const names = JSON.stringify(subpaths.map((path) => `effectively-once${path.slice(1)}`))
    const told = `${subpaths.length} loaded\n`
    const imported = `const all = await Promise.all(${names}.map((name) => import(name)))
      console.log(all.filter((module) => Object.keys(module).length > 0).length, 'loaded')`
    expect(await runFile('subpaths.mjs', imported)).toBe(told)
    const required = `console.log(${names}.map(require).filter((module) => Object.keys(module).length > 0).length, 'loaded')`
    expect(await runFile('subpaths.cjs', required)).toBe(told)
  })

  it('loads every store without its client', async () => {
    const stores = Object.keys(SUBPATHS).filter((name) => SUBPATHS[name]?.kind === 'store')
    const code = `for (const name of ${JSON.stringify(stores)}) {
        const [store] = Object.values(await import('effectively-once/' + name))
        console.log(name, typeof store)
      }`
    expect(await runFile('stores.mjs', code)).toBe(stores.map((name) => `${name} function\n`).join(''))
  })

  it('passes its own store contract as it is packed', { timeout: TIMEOUT_MS }, async () => {
    const code = `import { sqliteStore } from 'effectively-once/sqlite'
      import { storeContract } from 'effectively-once/testing'
      const insert = (key) => ['insert into charge (key) values ($1)', [key]]
      let files = 0
      const make = async () => {
        const store = sqliteStore({ file: 'contract-' + files++ + '.db' })
        await store.schema.migrate()
        await store.transaction((tx) => tx.query('create table charge (key text)', []))
        return {
          store,
          effect: async (tx, key) => void (await tx.query(...insert(key))),
          effects: (key) => store.transaction(async (tx) =>
            (await tx.query('select count(*) as n from charge where key = $1', [key])).rows[0].n),
          statement: (key) => ({ sql: insert(key)[0], values: [key] }),
          transaction: (work) => store.transaction(work),
          close: () => store.close(),
        }
      }
      const failed = []
      let passed = 0
      for (const { name, run } of storeContract(make)) {
        // Once more: some cases have leases of milliseconds, and the machine may have been busy elsewhere.
        const result = await run().catch(() => run()).catch((error) => failed.push(name + ': ' + error.stack))
        if (result === undefined) passed++
      }
      console.log(JSON.stringify({ failed, enough: passed > 80 }))`
    expect(JSON.parse(await runFile('contract.mjs', code))).toEqual({ failed: [], enough: true })
  })

  it('runs an operation once', async () => {
    const code = `import { effectivelyOnce } from 'effectively-once'
      import { sqliteStore } from 'effectively-once/sqlite'
      const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: ':memory:' }), guard: 'off' })
      await once.migrate()
      let ran = 0
      for (let i = 0; i < 3; i++) await once.run({ scope: 'global', key: 'a', input: 1 }, async () => ++ran)
      console.log(ran)
      await once.close()`
    expect(await runFile('run.mjs', code)).toBe('1\n')
  })

  it(
    'has types that compile in a project with only pg, libraries checked too',
    async () => {
      const code = `import pg from 'pg'
        import { effectivelyOnce, isOnceError, type OpOf } from 'effectively-once'
        import { pgStore } from 'effectively-once/pg'
        import { sqliteStore } from 'effectively-once/sqlite'

        const once = effectivelyOnce({ namespace: 'shop', store: pgStore(new pg.Pool()) })
        const insert = async ({ tx }: OpOf<typeof once>): Promise<number | null> =>
          (await tx.query('insert into charges values (1)')).rowCount
        export const charged: Promise<number | null> = once.run({ scope: 'a', key: 'b', input: 1 }, insert)
        // @ts-expect-error: a transaction is not the handler's to give back
        void once.run({ scope: 'a', key: 'b', input: 1 }, async ({ tx }) => tx.release())
        // @ts-expect-error: a leased handler that forgets to commit
        void once.run({ scope: 'a', key: 'b', input: 1, lease: '30s' }, async () => 1)
        effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: 'shop.db' }) })
        export const late = (error: unknown): boolean => isOnceError(error, 'ONCE_DEADLINE')`
      await writeFile(join(project, 'types.ts'), code)
      const compilerOptions = {
        strict: true,
        skipLibCheck: false,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        target: 'es2022',
        module: 'nodenext',
        types: ['node'],
      }
      await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['types.ts'] }))
      expect(await run(process.execPath, [tsc, '-p', '.'], project)).toBe('')
    },
    TIMEOUT_MS,
  )

  it(
    'is used from TypeScript that compiles to CommonJS',
    async () => {
      const code = `import { effectivelyOnce } from 'effectively-once'
        import { sqliteStore } from 'effectively-once/sqlite'
        const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: ':memory:' }), guard: 'off' })
        const main = async (): Promise<void> => {
          await once.migrate()
          const double = (): Promise<number> => once.run({ scope: 'global', key: 'a', input: 2 }, async () => 4)
          console.log((await double()) + (await double()))
          await once.close()
        }
        void main()`
      await writeFile(join(project, 'script.cts'), code)
      const options = ['--module', 'nodenext', '--target', 'es2022', '--strict', '--types', 'node', '--ignoreConfig']
      await run(process.execPath, [tsc, ...options, 'script.cts'], project)
      expect(await readFile(join(project, 'script.cjs'), 'utf8')).toContain('require("effectively-once")')
      expect(await run(process.execPath, ['script.cjs'], project)).toBe('8\n')
    },
    TIMEOUT_MS,
  )
})
