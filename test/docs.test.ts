import { execFile, spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { drizzle } from 'drizzle-orm/node-postgres'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SUBPATHS } from '../scripts/subpaths.ts'
import { drizzleStore } from '../src/entry/drizzle.ts'
import { kyselyStore } from '../src/entry/kysely.ts'
import { pgStore } from '../src/entry/pg.ts'
import { pgliteStore } from '../src/entry/pglite.ts'
import { postgresJsStore } from '../src/entry/postgres.ts'
import { prismaStore } from '../src/entry/prisma.ts'
import { redisStore } from '../src/entry/redis-store.ts'
import { sqliteStore } from '../src/entry/sqlite.ts'
import { ERRORS, problemTypeOf, type OnceCode } from '../src/errors.ts'
import { EVENTS, nextState, STATES } from '../src/lifecycle/machine.ts'
import type { StoreFeatures } from '../src/store/store.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const README_LINES_MAX = 150
const TIMEOUT_MS = 120_000

const texts = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
const pages = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', ...texts.map((name) => `docs/${name}`)]

function read(page: string): string {
  return readFileSync(join(root, page), 'utf8')
}

interface Block {
  readonly language: string
  readonly code: string
}

function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', code = '']) => ({
    language,
    code,
  }))
}

/** Rows of the tables below a heading (or of the whole text), without the heading row, cells trimmed. */
function rowsOf(markdown: string): string[][] {
  const lines = markdown.split('\n').filter((line) => line.startsWith('|'))
  return lines
    .filter((line, index) => !/^\|[ :|-]+$/.test(line) && !/^\|[ :|-]+$/.test(lines[index + 1] ?? ''))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
}

function section(markdown: string, heading: string): string {
  const [, rest] = markdown.split(`\n## ${heading}\n`)
  if (rest === undefined) throw new Error(`there is no section "${heading}"`)
  return rest.split('\n## ')[0] ?? ''
}

/** What the snippets take for granted. Whatever concerns the package they import themselves. */
const WORLD = `
import type { Once } from 'effectively-once'
import type { PgTx } from 'effectively-once/pg'
import type { PrismaDatabase } from 'effectively-once/prisma'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { PgTableWithColumns } from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'
declare global {
  const once: Once<PgTx<PoolClient>, {}>
  const pool: Pool
  const prisma: PrismaDatabase<{ $queryRawUnsafe(text: string): Promise<unknown> }>
  const db: NodePgDatabase
  const charges: PgTableWithColumns<any>
  type Tables = { charges: { id: number; amount: number } }
  const user: { id: string }
  const key: string
  const amount: number
  const body: string
  const event: { id: string; data: unknown }
  const invoice: { id: number; tenant: string; amount: number }
  const stripe: {
    charges: { create(charge: { amount: number }, o: { idempotencyKey: string }): Promise<{ id: string }> }
    refunds: { create(refund: { charge: string }, o: { idempotencyKey: string }): Promise<{ id: string }> }
  }
  type ListedCharge = { order: string; charge: string }
  const ledger: { read(from: { after: string | null }): readonly ListedCharge[] }
  const provider: {
    list(query: { orderBy: 'order'; after: string | null }): AsyncIterable<ListedCharge>
    refund(charge: string, o: { idempotencyKey: string }): Promise<{ id: string }>
  }
  const bank: {
    send(wire: { amount: number; note: string }): Promise<{ reference: string }>
    find(note: string): Promise<{ reference: string } | undefined>
    list(query: { orderBy: 'note'; after: string | null }): AsyncIterable<{ note: string; reference: string }>
    cancel(reference: string, o: { idempotencyKey: string }): Promise<{ id: string }>
  }
}
`

let folder: string
beforeAll(async () => {
  // Inside the tree, so that packages resolve as they do for a user.
  await mkdir(join(root, '.tmp'), { recursive: true })
  folder = await mkdtemp(join(root, '.tmp', 'docs-'))
  const up = relative(folder, root)
  const paths = { 'effectively-once': [`${up}/src/index.ts`], 'effectively-once/*': [`${up}/src/entry/*.ts`] }
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: `${up}/tsconfig.json`,
      // Nest's users write parameter properties.
      compilerOptions: { paths, erasableSyntaxOnly: false },
      include: ['**/*.ts'],
    }),
  )
  await writeFile(join(folder, 'world.d.ts'), WORLD)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

function runPasted(name: string, env: Record<string, string> = {}): ReturnType<typeof spawn> {
  return spawn(process.execPath, ['--import', 'tsx', name], {
    cwd: folder,
    env: { ...process.env, NODE_NO_WARNINGS: '1', NO_COLOR: '1', TSX_TSCONFIG_PATH: 'tsconfig.json', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function outputOf(name: string): Promise<string> {
  const child = runPasted(name)
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await onceEvent(child, 'close')) as [number]
  return code === 0 ? output : `${output}exit code ${code}`
}

describe('code in the docs', () => {
  it(
    'compiles',
    async () => {
      let count = 0
      for (const page of pages) {
        // A named file may be imported by the files after it. A second file of that name begins another project.
        const start = join(folder, page.replaceAll(/\W/g, '-'))
        let [project, projects] = [start, 1]
        for (const [index, { language, code }] of blocksOf(read(page)).entries()) {
          if (language !== 'ts') continue
          count++
          const [, name = `block-${index}.ts`] = /^\/\/ (\w+\.ts)\n/.exec(code) ?? []
          if (existsSync(join(project, name))) project = `${start}-${++projects}`
          await mkdir(project, { recursive: true })
          await writeFile(join(project, name), code)
        }
      }
      expect(count).toBeGreaterThan(20)
      const manifest = createRequire(import.meta.url).resolve('typescript/package.json')
      const tsc = join(dirname(manifest), 'bin', 'tsc')
      const told = await promisify(execFile)(process.execPath, [tsc, '--noEmit', '-p', folder], { cwd: folder }).then(
        () => '',
        (error: { stdout: string }) => error.stdout,
      )
      expect(told).toBe('')
    },
    TIMEOUT_MS,
  )
})

describe('the README', () => {
  const readme = read('README.md')
  const blocks = blocksOf(readme)
  const examples = blocks.filter(({ language }) => language === 'ts')
  const transcripts = blocks.filter(({ language }) => language === 'text')

  it('is short', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(README_LINES_MAX)
  })

  it(
    'has a first example that prints what it says, run as pasted, today and tomorrow',
    async () => {
      await mkdir(join(folder, 'first'))
      await writeFile(join(folder, 'first', 'shop.ts'), examples[0]!.code)
      const expected = transcripts[0]!.code
      expect(await outputOf('first/shop.ts')).toBe(expected)
      expect(await outputOf('first/shop.ts')).toBe(expected)
      await rm(join(folder, 'shop.db'))
    },
    TIMEOUT_MS,
  )

  it(
    'has an HTTP example that answers what it says, run as pasted',
    async () => {
      await mkdir(join(folder, 'second'))
      await writeFile(join(folder, 'second', 'shop.ts'), examples[1]!.code)
      const port = await freePort()
      const server = runPasted('second/shop.ts', { PORT: String(port) })
      try {
        const exchanges = transcripts[1]!.code.split(/^\$ /m).slice(1)
        expect(exchanges).toHaveLength(3)
        for (const exchange of exchanges) {
          const [command = '', ...shown] = exchange.trimEnd().split('\n')
          expect(await answered(command, port, shown.length)).toEqual(shown)
        }
      } finally {
        const closed = onceEvent(server, 'close')
        server.kill()
        await closed
      }
    },
    TIMEOUT_MS,
  )

  it('names a test file for every promise', () => {
    const rows = rowsOf(section(readme, 'Promises, and the tests that prove them'))
    expect(rows.length).toBeGreaterThanOrEqual(8)
    const without = rows.filter(([, test = '']) => {
      const path = /^`([^`]+\.test\.ts)`$/.exec(test)?.[1]
      return path === undefined || !existsSync(join(root, path))
    })
    expect(without).toEqual([])
  })

  it('lists stores that exist', async () => {
    const rows = rowsOf(section(readme, 'Your database: change one line'))
    expect(rows).toHaveLength(Object.values(SUBPATHS).filter(({ kind }) => kind === 'store').length)
    for (const [, call = '', from = ''] of rows) {
      const [, subpath] = from.replaceAll('`', '').split('/')
      const entry = (await import(`../src/entry/${subpath}.ts`)) as Record<string, unknown>
      const name = /\w+/.exec(call)?.[0] ?? ''
      expect({ name, kind: typeof entry[name] }).toEqual({ name, kind: 'function' })
    }
  })

  it('says how to set the repository up', () => {
    expect(readme).toContain('`npm ci && npm start`')
    expect(readme).toContain('`npm ci && npm test`')
  })
})

describe('the docs', () => {
  it('are all linked from the README', () => {
    const readme = read('README.md')
    expect(pages.filter((page) => page !== 'README.md' && !readme.includes(`(${page})`))).toEqual([])
  })

  it('draw the machine as it is', () => {
    const [, ...rows] = read('docs/state-machine.md')
      .split('\n')
      .filter((line) => line.startsWith('| state ') || STATES.some((state) => line.startsWith(`| ${state} `)))
      .map((line) => line.split('|').map((cell) => cell.trim()))
    const drawn = rows.map((cells) => cells.slice(1, -1))
    const table = STATES.map((state) => [state, ...EVENTS.map((event) => nextState(state, event) ?? '–')])
    expect(drawn).toEqual(table)
    expect(read('docs/state-machine.md')).toMatch(new RegExp(`\\| state +\\| ${EVENTS.join(' +\\| ')} +\\|`))
  })

  it('explain every error: anchor, status, retryable, meaning, remedy', () => {
    const told = read('docs/errors.md')
      .split(/^### /m)
      .slice(1)
      .map((text) => {
        const [heading = '', , facts = '', , remedy = ''] = text.split('\n')
        return { heading, facts, hasRemedy: remedy.length > 20 }
      })
    const expected = (Object.keys(ERRORS) as OnceCode[]).map((code) => {
      const { status, retryable, message } = ERRORS[code]
      return {
        heading: `<a id="${problemTypeOf(code)}"></a>${code}`,
        facts: `Status ${status}, ${retryable ? '' : 'not '}retryable. ${message}.`,
        hasRemedy: true,
      }
    })
    expect(told).toEqual(expected)
  })

  it('name only codes that exist', () => {
    const unknown = pages.flatMap((page) =>
      [...read(page).matchAll(/\bONCE_[A-Z_]+\b/g)]
        .filter(([code]) => !Object.hasOwn(ERRORS, code))
        .map(([code]) => `${page}: ${code}`),
    )
    expect(unknown).toEqual([])
  })

  it('declare what each store can do', async () => {
    // None of these connects before it is used.
    const pool = new pg.Pool()
    const sql = postgres({ host: 'nowhere' })
    const noop = async (): Promise<void> => {}
    const stores: Record<string, { readonly features: StoreFeatures }> = {
      pgStore: pgStore(pool),
      postgresJsStore: postgresJsStore(sql),
      drizzleStore: drizzleStore(drizzle(pool)),
      kyselyStore: kyselyStore(new Kysely({ dialect: new PostgresDialect({ pool }) }), { dialect: 'postgres' }),
      prismaStore: prismaStore({ $transaction: noop, $queryRawUnsafe: noop, $connect: noop } as never, {
        dialect: 'postgres',
      }),
      pgliteStore: pgliteStore({ transaction: noop, query: noop, execProtocol: noop } as never),
      sqliteStore: sqliteStore({ file: 'shop.db' }),
      redisStore: redisStore({ status: 'wait', call: noop, pipeline: noop } as never),
    }
    const page = read('docs/stores.md')
    const columns = ['transactional', 'concurrentClaims', 'serverDeadline', 'durable'] as const
    expect(page).toMatch(new RegExp(`\\| store +\\| ${columns.join(' +\\| ')} +\\|`))
    const declared = Object.fromEntries(rowsOf(page).map(([name = '', ...cells]) => [name.replaceAll('`', ''), cells]))
    const actual = Object.entries(stores).map(([name, { features }]) => [
      name,
      columns.map((column) => ((features[column] ?? true) ? 'yes' : 'no')),
    ])
    expect(declared).toEqual(Object.fromEntries(actual))
    await Promise.all([pool.end(), sql.end()])
  })
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0)
  await onceEvent(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

/** What `curl -i` would show of the answer, in the lines that the transcript shows: status, replay mark, body. */
async function answered(command: string, port: number, lines: number): Promise<string[]> {
  const shape = /^curl -i localhost:3000(\S+) (.+) --json '(.+)'$/
  const [, path = '', flags = '', body = ''] = shape.exec(command) ?? []
  const said = [...flags.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name, value]) => [name, value])
  const headers = { 'content-type': 'application/json', ...(Object.fromEntries(said) as Record<string, string>) }
  const response = await patiently(() => fetch(`http://localhost:${port}${path}`, { method: 'POST', headers, body }))
  const mark = response.headers.get('idempotent-replayed')
  const shown = [`HTTP/1.1 ${response.status} ${response.statusText}`]
  if (mark !== null) shown.push(`idempotent-replayed: ${mark}`)
  shown.push(await response.text())
  // A refusal's body is long, and the transcript leaves it out.
  return response.ok ? shown : shown.slice(0, lines)
}

/** The server needs a moment to start. */
async function patiently<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call()
    } catch (error) {
      if (tries >= 300) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
