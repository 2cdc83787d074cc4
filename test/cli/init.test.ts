import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { generateIn } from '../../scripts/prisma-generate.ts'
import { describePostgres } from '../support/postgres.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 900_000
const root = fileURLToPath(new URL('../..', import.meta.url))
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')

/** The packages by which each is found. */
const FRAMEWORKS: Readonly<Record<string, readonly string[]>> = {
  express: ['express'],
  fastify: ['fastify'],
  hono: ['hono'],
  koa: ['koa'],
  nest: ['@nestjs/core', 'express'],
  node: [],
}
const CLIENTS: Readonly<Record<string, readonly string[]>> = {
  pg: ['pg'],
  postgres: ['postgres'],
  drizzle: ['drizzle-orm', 'pg'],
  kysely: ['kysely', 'pg'],
  prisma: ['@prisma/client', 'pg'],
  pglite: ['@electric-sql/pglite'],
  sqlite: [],
}
const COMBINATIONS: readonly (readonly [string, string])[] = [
  ...Object.keys(FRAMEWORKS).flatMap(
    (framework) =>
      [
        [framework, 'pg'],
        [framework, 'sqlite'],
      ] as const,
  ),
  ...Object.keys(CLIENTS)
    .filter((client) => client !== 'pg' && client !== 'sqlite')
    .map((client) => ['express', client] as const),
]

const STRICT = {
  target: 'ES2022',
  module: 'NodeNext',
  moduleResolution: 'NodeNext',
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  noImplicitReturns: true,
  noPropertyAccessFromIndexSignature: true,
  exactOptionalPropertyTypes: true,
  noUnusedLocals: true,
  noUnusedParameters: true,
  skipLibCheck: true,
  noEmit: true,
  experimentalDecorators: true,
}
const PRISMA = `generator client {
  provider            = "prisma-client"
  output              = "./generated"
  importFileExtension = "js"
  moduleFormat        = "esm"
}
datasource db {
  provider = "postgresql"
}
model Effect {
  id Int @id
}
`

describePostgres('init', (database) => {
  let folder: string

  /** The package as users have it, and below it one project for each combination. */
  beforeAll(async () => {
    await mkdir(join(root, '.tmp'), { recursive: true })
    folder = await mkdtemp(join(root, '.tmp', 'init-'))
    const home = join(folder, 'node_modules', 'effectively-once')
    await mkdir(home, { recursive: true })
    await run(process.execPath, ['--import', 'tsx', join('scripts', 'build.ts'), join(home, 'dist')], root)
    await copyFile(join(root, 'package.json'), join(home, 'package.json'))
    for (const [framework, client] of COMBINATIONS) {
      await project(`${framework}-${client}`, [...(FRAMEWORKS[framework] ?? []), ...(CLIENTS[client] ?? [])])
    }
    await project('vitest', ['express', 'vitest'])
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: STRICT, include: ['*/src/**/*.ts'] }),
    )
    const prisma = join(folder, 'express-prisma')
    await writeFile(join(prisma, 'schema.prisma'), PRISMA)
    await generateIn(prisma)
  }, TIMEOUT_MS)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function project(name: string, packages: readonly string[]): Promise<void> {
    await mkdir(join(folder, name, 'src'), { recursive: true })
    const dependencies = Object.fromEntries(packages.map((one) => [one, '*']))
    await writeFile(join(folder, name, 'package.json'), JSON.stringify({ name, type: 'module', dependencies }))
    await writeFile(join(folder, name, 'tsconfig.json'), JSON.stringify({ extends: '../tsconfig.json' }))
  }

  const urlOf = (client: string): string => (client === 'sqlite' ? 'app.db' : database.url)

  it.each(COMBINATIONS)('finds %s with %s', { timeout: TIMEOUT_MS }, async (framework, client) => {
    const cwd = join(folder, `${framework}-${client}`)
    const env = { DATABASE_URL: client === 'pglite' ? '' : urlOf(client) }
    const { code, out, err } = await cli(['init', '--json'], { cwd, env })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(JSON.parse(out)).toMatchObject({ framework, client, written: true })
    expect(existsSync(join(cwd, 'src', 'once', 'charges.test.ts'))).toBe(true)
  })

  it('prints what it would write', { timeout: TIMEOUT_MS }, async () => {
    const cwd = join(folder, 'vitest')
    const { code, out } = await cli(['init', '--dry-run'], { cwd })
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('--- src/once/charges.test.ts') })
    expect(existsSync(join(cwd, 'src', 'once'))).toBe(false)
  })

  it('writes for the test runner of the project', { timeout: TIMEOUT_MS }, async () => {
    const cwd = join(folder, 'vitest')
    expect(await cli(['init'], { cwd })).toMatchObject({ code: 0, out: expect.stringContaining('npx vitest run') })
    expect(await readFile(join(cwd, 'src/once/charges.test.ts'), 'utf8')).toContain(`from 'vitest'`)
  })

  it('writes files that compile', { timeout: TIMEOUT_MS }, async () => {
    expect(await run(process.execPath, [tsc, '-p', folder], folder)).toBe('')
  })

  it.each(COMBINATIONS)('%s with %s: the first test passes', { timeout: TIMEOUT_MS }, async (framework, client) => {
    const env = { ...process.env, DATABASE_URL: urlOf(client), NODE_NO_WARNINGS: '1', NODE_TEST_CONTEXT: undefined }
    const cwd = join(folder, `${framework}-${client}`)
    const tested = await run(process.execPath, ['--import', 'tsx', '--test', 'src/once/charges.test.ts'], cwd, env)
    expect(tested).toMatch(/^(?:# |\u2139 )pass 1$/m)
  })

  it.each(['pg', 'sqlite'])('%s: the migration step ends by itself', { timeout: TIMEOUT_MS }, async (client) => {
    const env = { ...process.env, DATABASE_URL: urlOf(client), NODE_NO_WARNINGS: '1' }
    const cwd = join(folder, `express-${client}`)
    expect(await run(process.execPath, ['--import', 'tsx', 'src/once/migrate.ts'], cwd, env)).toBe('')
  })

  it('overwrites nothing', { timeout: TIMEOUT_MS }, async () => {
    const cwd = join(folder, 'node-sqlite')
    const file = join(cwd, 'src/once/once.ts')
    await writeFile(file, '// mine')
    const { code, err } = await cli(['init'], { cwd })
    expect({ code, err }).toEqual({
      code: 2,
      err: expect.stringMatching(/^ONCE_OPTION_INVALID already exists: src\/once\/once\.ts/),
    })
    expect(readFileSync(file, 'utf8')).toBe('// mine')
    expect((await cli(['init', '--dir', 'elsewhere'], { cwd })).code).toBe(0)
  })

  it.each([
    [[], 'there is no package.json'],
    [['--framework', 'rails'], '--framework must be one of express'],
    [['--client', 'mysql2'], '--client must be one of pg'],
    [['--url', 'mysql://localhost/x'], `'mysql' databases are not supported`],
  ])('refuses %j', { timeout: TIMEOUT_MS }, async (args, line) => {
    const cwd = args.length === 0 ? folder : join(folder, 'express-pg')
    expect(await cli(['init', ...args], { cwd })).toMatchObject({ code: 2, err: expect.stringContaining(line) })
  })
})

async function run(command: string, args: readonly string[], cwd: string, env = process.env): Promise<string> {
  try {
    return (await promisify(execFile)(command, [...args], { cwd, env })).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${args.join(' ')}\n${stdout}\n${stderr}`, { cause: error })
  }
}
