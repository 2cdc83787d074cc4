import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { generatePrismaClient } from '../../scripts/prisma-generate.ts'
import { run } from '../../scripts/servers/process.ts'
import { freshDatabase } from '../support/postgres.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const BLOCK_MS = 120_000

/** Whole pages that other tests run, and blocks that need what is not here. A block is named by a line of it. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'README.md': 'test/docs.test.ts',
  'docs/setups.md': 'test/setups/setups.test.ts',
  'docs/shutdown.md': 'test/shutdown/page.test.ts',
  'docs/tutorial.md': 'test/setups/tutorial.test.ts',
}
const NEEDS_MORE: readonly string[] = [
  "from '@nats-io/transport-node'", // a NATS server
  "from '@platformatic/kafka'", // a Kafka server
  "from 'rabbitmq-client'", // a RabbitMQ server
  "from '@aws-sdk/client-sqs'", // an SQS server
  "from 'ioredis'", // a Redis server
  'new StdioClientTransport(', // an MCP server as another process: test/mcp
  "from 'vitest'", // vitest runs it
  'once.operations.settle(', // an operation whose outcome is unknown: test/protocol/operations.test.ts
  'once.parked.release(', // parked events: test/relay
  'once.resend(', // a destination: test/relay
  'once.redrive.run(', // dead letters: test/redrive/redrive.test.ts
]

interface Block {
  readonly name: string
  readonly code: string
}

function blocks(): Block[] {
  const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
  return pages
    .map((name) => `docs/${name}`)
    .filter((page) => ELSEWHERE[page] === undefined)
    .flatMap((page) => {
      const markdown = readFileSync(join(root, page), 'utf8')
      const found = [...markdown.matchAll(/^```ts\n([\s\S]*?)^```$/gm)]
      return found.map(([, code = ''], index) => ({ name: `${page} ${index + 1}`, code }))
    })
}

const server = inject('servers').postgres
const runnable = blocks().filter(({ code }) => !NEEDS_MORE.some((line) => code.includes(line)))

const fileOf = ({ name }: Block): string => name.replaceAll(/\W/g, '-')

let folder: string
beforeAll(async () => {
  await generatePrismaClient()
  await mkdir(join(root, '.tmp'), { recursive: true })
  // Inside the tree, so that packages resolve as they do for a user.
  folder = await mkdtemp(join(root, '.tmp', 'blocks-'))
  for (const block of runnable) await writeFile(join(folder, `${fileOf(block)}.ts`), block.code)
  await compile()
}, BLOCK_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Compiles all blocks at once, with the package that they import by its name: a loader would compile it for each. */
async function compile(): Promise<void> {
  const up = relative(folder, root)
  const compilerOptions = {
    paths: { 'effectively-once': [`${up}/src/index.ts`], 'effectively-once/*': [`${up}/src/entry/*.ts`] },
    noEmit: false,
    noCheck: true,
    outDir: 'build',
    rootDir: up,
  }
  const options = { extends: `${up}/tsconfig.json`, compilerOptions, include: ['*.ts', `${up}/test/docs-run/block.ts`] }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(options))
  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], { timeoutMs: BLOCK_MS })
  const { name, type, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const compiled = JSON.stringify({ name, type, exports }).replaceAll('./dist/', './src/')
  await writeFile(join(folder, 'build', 'package.json'), compiled)
}

it('every page is run here, or by a test that exists', async () => {
  for (const file of Object.values(ELSEWHERE)) await cp(join(root, file), join(folder, 'found'))
  expect(runnable.length).toBeGreaterThan(35)
})

it.skipIf('missing' in server).concurrent.each(runnable)('$name runs', { timeout: BLOCK_MS }, async (block) => {
  const database = await freshDatabase(server)
  const build = join(folder, 'build')
  const file = join(build, relative(root, folder), `${fileOf(block)}.js`)
  try {
    const running = run(process.execPath, [join(build, 'test/docs-run/block.js'), file], {
      timeoutMs: BLOCK_MS,
      cwd: folder,
      env: { DATABASE_URL: database.url, NODE_NO_WARNINGS: '1', PORT: '0' },
    })
    await expect(running).resolves.toEqual(expect.any(String))
  } finally {
    await database.drop()
  }
})
