import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL, fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const FOLDERS = ['../test/support/prisma/', '../examples/02-fastify-prisma/', '../examples/07-nest-prisma/']

/**
 * Generates the Prisma clients of the tests and of the examples, unless they are there and made from these schemas by this
 * version.
 *
 * Nothing is downloaded. The command line requires a schema engine, although generating a client never starts one. Any
 * existing file satisfies it.
 */
export async function generatePrismaClient(): Promise<'generated' | 'fresh'> {
  let outcome: 'generated' | 'fresh' = 'fresh'
  for (const folder of FOLDERS) {
    if ((await generateIn(fileURLToPath(new URL(folder, import.meta.url)))) === 'generated') outcome = 'generated'
  }
  return outcome
}

/** Generates the client of `schema.prisma` in this folder, into `generated`. */
export async function generateIn(folder: string): Promise<'generated' | 'fresh'> {
  const schemaFile = join(folder, 'schema.prisma')
  const stampFile = join(folder, 'generated', '.stamp')
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('prisma/package.json')
  const { version } = require(manifest) as { version: string }
  const stamp = createHash('sha256')
    .update(`${version}\n${await readFile(schemaFile, 'utf8')}`)
    .digest('hex')
  if ((await readFile(stampFile, 'utf8').catch(() => '')) === stamp) return 'fresh'
  const cli = join(dirname(manifest), 'build', 'index.js')
  await promisify(execFile)(process.execPath, [cli, 'generate', '--schema', schemaFile, '--no-hints'], {
    env: {
      ...process.env,
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
      PRISMA_HIDE_UPDATE_MESSAGE: '1',
      CHECKPOINT_DISABLE: '1',
    },
  })
  await writeFile(stampFile, stamp)
  return 'generated'
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(`Prisma clients of the tests and examples: ${await generatePrismaClient()}`)
}
