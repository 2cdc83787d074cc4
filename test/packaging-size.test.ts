import { existsSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Rollup } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const TIMEOUT_MS = 120_000
const KB = 1_000

/**
 * What each part may weigh, minified and gzipped. `.` is everything the core can do, relay, consumers, dead letters and
 * redrive included; the others are what they add to it. Ceilings, not aims: whoever raises one says why.
 */
const CEILINGS_KB: Readonly<Record<string, number>> = {
  '.': 77,
  drizzle: 44,
  kysely: 43,
  pg: 48,
  pglite: 42,
  postgres: 43,
  prisma: 43,
  sqlite: 25,
  express: 21,
  fastify: 21,
  fetch: 16,
  hono: 16,
  koa: 21,
  nest: 22,
  node: 21,
  kafka: 9,
  nats: 7,
  rabbitmq: 8,
  redis: 8,
  github: 3,
  stripe: 3,
  webhook: 6,
}

/** Not shipped to anybody's server. */
const UNWEIGHED = new Set(['testing'])

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
  const entries = readdirSync(join(root, 'src', 'entry')).map((file) => file.replace(/\.ts$/, ''))

  it('has a ceiling for every subpath, and none for what is not there', () => {
    const weighed = entries.filter((name) => !UNWEIGHED.has(name))
    expect(['.', ...weighed].filter((name) => CEILINGS_KB[name] === undefined)).toEqual([])
    const known = Object.keys(CEILINGS_KB).filter((name) => name !== '.')
    expect(known.filter((name) => !existsSync(join(root, 'src', 'entry', `${name}.ts`)))).toEqual([])
  })

  it(
    'stays under its ceilings',
    async () => {
      const core = await weigh('core', ['index.ts'])
      const weights: [name: string, bytes: number][] = [['.', core]]
      for (const name of entries.filter((entry) => !UNWEIGHED.has(entry))) {
        weights.push([name, (await weigh(name, ['index.ts', `entry/${name}.ts`])) - core])
      }
      const rows = weights.map(([name, bytes]) => ({ name, kB: Math.round(bytes / 100) / 10, most: CEILINGS_KB[name] }))
      console.table(rows)
      expect(weights.filter(([name, bytes]) => bytes > (CEILINGS_KB[name] ?? 0) * KB)).toEqual([])
    },
    TIMEOUT_MS,
  )
})
