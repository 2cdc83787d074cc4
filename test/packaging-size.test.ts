import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Rollup } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CORE_KB, SUBPATHS } from '../scripts/subpaths.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const TIMEOUT_MS = 120_000
const KB = 1_000

/** What each part may weigh: whoever raises a ceiling says why. */
const CEILINGS_KB: Readonly<Record<string, number | undefined>> = {
  '.': CORE_KB,
  ...Object.fromEntries(Object.entries(SUBPATHS).map(([name, { kB }]) => [name, kB])),
}

let folder: string
beforeAll(async () => {
  await mkdir(join(root, '.tmp'), { recursive: true })
  folder = await mkdtemp(join(root, '.tmp', 'size-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Of everything that is exported from these, bundled as a user's bundler would. */
async function weigh(name: string, modules: readonly string[]): Promise<number> {
  const entry = join(folder, `${name}.ts`)
  const lines = modules.map((path, i) => `export * as part${i} from ${JSON.stringify(join(root, 'src', path))}`)
  await writeFile(entry, lines.join('\n'))
  const built = (await build({
    root,
    configFile: false,
    logLevel: 'error',
    build: {
      write: false,
      minify: true,
      target: 'es2022',
      lib: { entry, formats: ['es'], fileName: name },
      rollupOptions: { external: (id) => !/^[./]/.test(id) },
    },
  })) as Rollup.RollupOutput[]
  const chunks = built.flatMap(({ output }) => output).filter((part) => part.type === 'chunk')
  return chunks.reduce((sum, { code }) => sum + gzipSync(code, { level: 9 }).length, 0)
}

describe('the weight of the package', () => {
  const entries = Object.keys(SUBPATHS).filter((name) => CEILINGS_KB[name] !== undefined)

  it(
    'stays under its ceilings',
    async () => {
      const core = await weigh('core', ['index.ts'])
      const weights: [name: string, bytes: number][] = [['.', core]]
      for (const name of entries) {
        weights.push([name, (await weigh(name, ['index.ts', `entry/${name}.ts`])) - core])
      }
      const rows = weights.map(([name, bytes]) => ({ name, kB: Math.round(bytes / 100) / 10, most: CEILINGS_KB[name] }))
      console.table(rows)
      expect(weights.filter(([name, bytes]) => bytes > (CEILINGS_KB[name] ?? 0) * KB)).toEqual([])
    },
    TIMEOUT_MS,
  )
})
