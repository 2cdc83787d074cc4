import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { CLIENTS, type ClientName, type PrismaProject } from './init-clients.ts'
import { FRAMEWORKS, type FrameworkName } from './init-frameworks.ts'
import type { Arguments } from './arguments.ts'
import { oneOf } from './values.ts'
import { UsageError } from './usage.ts'

/** What package.json, the folder and the database URL say about the project. */
export interface Project {
  /** The namespace of the instance. */
  readonly name: string
  readonly framework: FrameworkName
  readonly client: ClientName
  /** The folder of the new files, from the folder of package.json. */
  readonly folder: string
  readonly prisma: PrismaProject
  readonly runner: 'vitest' | '@jest/globals' | 'node:test'
  /** Jest resolves no `.js` to a file of TypeScript. Only CommonJS may leave it out. */
  readonly extension: '' | '.js'
  readonly installed: ReadonlySet<string>
}

interface Manifest {
  readonly name?: unknown
  readonly type?: unknown
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

/** By the package that reveals it. The first match counts: Nest brings Express, and an ORM brings its driver. */
const FRAMEWORK_OF: readonly (readonly [string, FrameworkName])[] = [
  ['@nestjs/core', 'nest'],
  ['fastify', 'fastify'],
  ['express', 'express'],
  ['hono', 'hono'],
  ['koa', 'koa'],
]
const CLIENT_OF: readonly (readonly [string, ClientName])[] = [
  ['@prisma/client', 'prisma'],
  ['drizzle-orm', 'drizzle'],
  ['kysely', 'kysely'],
  ['pg', 'pg'],
  ['postgres', 'postgres'],
  ['@electric-sql/pglite', 'pglite'],
]
const SCHEMAS = ['prisma/schema.prisma', 'schema.prisma']
/** A namespace may be longer, but not much longer. */
const NAME_LENGTH_MAX = 100

export function projectIn(root: string, given: Arguments): Project {
  const { name, type, dependencies, devDependencies } = manifestIn(root)
  const versions = { ...dependencies, ...devDependencies }
  const installed = new Set(Object.keys(versions))
  const found = <T>(list: readonly (readonly [string, T])[]): T | undefined =>
    list.find(([needed]) => installed.has(needed))?.[1]
  const framework = oneOf('framework', given.values.framework, Object.keys(FRAMEWORKS)) as FrameworkName | undefined
  const client = oneOf('client', given.values.client, Object.keys(CLIENTS)) as ClientName | undefined
  const folder = given.values.dir ?? (existsSync(join(root, 'src')) ? 'src/once' : 'once')
  if (folder === '') throw new UsageError('--dir must be the name of a folder')
  const runner = installed.has('vitest') ? 'vitest' : installed.has('jest') ? '@jest/globals' : 'node:test'
  return {
    name: namespaceOf(typeof name === 'string' ? name : ''),
    framework: framework ?? found(FRAMEWORK_OF) ?? 'node',
    client: client ?? clientOf(given.url, found(CLIENT_OF)),
    folder,
    prisma: prismaIn(root, folder, versions),
    runner,
    extension: runner === '@jest/globals' && type !== 'module' ? '' : '.js',
    installed,
  }
}

function namespaceOf(name: string): string {
  const plain = name.replace(/^@[^/]*\//, '').replaceAll(/[^\w.-]/g, '-')
  return plain.slice(0, NAME_LENGTH_MAX) || 'app'
}

function manifestIn(root: string): Manifest {
  const file = join(root, 'package.json')
  if (!existsSync(file)) throw new UsageError('there is no package.json in this folder; run: npm init')
  const text = textOf(file)
  try {
    const manifest: unknown = JSON.parse(text)
    if (typeof manifest === 'object' && manifest !== null) return manifest
  } catch {
    // Said below.
  }
  throw new UsageError('package.json is not a JSON object')
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}

function clientOf(url: string | undefined, found: ClientName | undefined): ClientName {
  if (!url) return found ?? 'sqlite'
  if (/^postgres(?:ql)?:/i.test(url)) return found ?? 'pg'
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(url)?.[1] ?? 'file'
  if (/^(?:file|sqlite)$/i.test(scheme)) return 'sqlite'
  throw new UsageError(`'${scheme}' databases are not supported; use PostgreSQL or a SQLite file`)
}

/** A generated client is imported from the `output` of its generator. Prisma 7 needs an adapter, and so do its tests. */
function prismaIn(root: string, folder: string, versions: Readonly<Record<string, string>>): PrismaProject {
  const major = Number(/\d+/.exec(versions['@prisma/client'] ?? '')?.[0] ?? 7)
  const adapter = major >= 7 || versions['@prisma/adapter-pg'] !== undefined
  const schema = SCHEMAS.find((file) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile())
  const text = schema === undefined ? '' : textOf(join(root, schema))
  const [generator = ''] = /generator\s+\w+\s*\{[^}]*\}/.exec(text) ?? []
  const output = /^\s*output\s*=\s*"([^"]+)"/m.exec(generator)?.[1]
  if (schema === undefined || output === undefined) return { client: '@prisma/client', adapter }
  // The older generator writes an index, the newer one a file named client.
  const entry = generator.includes('prisma-client-js') ? 'index.js' : 'client.js'
  const path = relative(resolve(root, folder), join(root, dirname(schema), output, entry)).replaceAll('\\', '/')
  return { client: path.startsWith('.') ? path : `./${path}`, adapter }
}
