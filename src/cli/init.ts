import { lstatSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { invalid } from '../options.ts'
import { CLIENTS, type ClientWiring } from './init-clients.ts'
import { FRAMEWORKS } from './init-frameworks.ts'
import { projectIn, type Project } from './init-project.ts'
import type { Run } from './report.ts'

/** Tools that the commands of the last lines need, and the types of Node. */
const TOOLS = ['tsx', 'typescript', '@types/node']

const RUNS: Readonly<Record<Project['runner'], string>> = {
  vitest: 'npx vitest run',
  '@jest/globals': 'npx jest',
  'node:test': 'npx tsx --test',
}

/** Writes a first protected route for the framework and the database client of the project. Overwrites nothing. */
export const init: Run = async (given) => {
  const root = process.cwd()
  const project = projectIn(root, given)
  const { folder, framework, client, installed } = project
  const wiring = CLIENTS[client](project.prisma)
  const files = filesOf(project, wiring)
  const there = files.filter(({ path }) => lstatSync(resolve(root, path), { throwIfNoEntry: false }))
  if (there.length > 0) {
    const names = there.map(({ path }) => path).join(', ')
    throw invalid(`already exists: ${names}. Nothing was written. Choose another folder with --dir`)
  }
  const needed = ['effectively-once', ...FRAMEWORKS[framework].packages, ...wiring.packages, ...TOOLS]
  const missing = needed.filter((name) => !installed.has(name))
  const next = [
    ...(missing.length > 0 ? [`npm i ${missing.join(' ')}`] : []),
    `npx tsx ${quoted(`${folder}/migrate.ts`)}`,
    `${RUNS[project.runner]} ${quoted(`${folder}/charges.test.ts`)}`,
    `npx tsx ${quoted(`${folder}/main.ts`)}`,
  ]
  const written = given.values['dry-run'] !== true
  if (written) {
    await mkdir(resolve(root, folder), { recursive: true })
    for (const { path, text } of files) await writeFile(resolve(root, path), text, { flag: 'wx' })
  }
  const list = files.map(({ path, text }) => (written ? `wrote ${path}` : `--- ${path}\n${text}`))
  return {
    text: [`${framework}, ${client}`, ...list, '', 'next:', ...next.map((line) => `  ${line}`)].join('\n'),
    data: { framework, client, written, files, next },
  }
}

/** For a shell. */
function quoted(path: string): string {
  return /^[\w./@-]+$/.test(path) ? path : `'${path.replaceAll(`'`, `'\\''`)}'`
}

function filesOf(
  { folder, framework, name, runner, extension }: Project,
  wiring: ClientWiring,
): { path: string; text: string }[] {
  const texts = {
    'once.ts': onceText(name, wiring),
    'charges.ts': FRAMEWORKS[framework].text,
    'migrate.ts': MIGRATE,
    'main.ts': MAIN,
    'charges.test.ts': testText(runner),
  }
  const own = (text: string): string => text.replaceAll(/ from '(\.[^']+)\.js'/g, ` from '$1${extension}'`)
  return Object.entries(texts).map(([file, text]) => ({ path: `${folder}/${file}`, text: own(text) }))
}

/** Imports end in .js, which every setting of TypeScript's `module` accepts, but not Jest. */
function onceText(name: string, { setup, create, insert, end }: ClientWiring): string {
  return `import { randomUUID } from 'node:crypto'
import { effectivelyOnce, type TxOf } from 'effectively-once'
${setup}

/** The namespace names the service. Services that share a database need different names. */
export const once = effectivelyOnce({ namespace: '${name}', store })

export interface Charge {
  id: string
  amount: number
}

/** The tables of effectively-once, then your own. It may run many times. */
export async function migrate(): Promise<void> {
  await once.migrate()
  await ${create}
}

/** What is written through \`tx\` commits together with the key and the answer, or not at all. */
export async function charge(tx: TxOf<typeof once>, amount: number): Promise<Charge> {
  const id = randomUUID()
  await ${insert}
  return { id, amount }
}

/** Call it after \`once.close()\`. */
export async function end(): Promise<void> {${end === undefined ? '' : `\n  await ${end}\n`}}
`
}

const MIGRATE = `import { end, migrate, once } from './once.js'

void migrate()
  .then(() => once.close())
  .then(end)
`

const MAIN = `import { listen } from './charges.js'

void listen(Number(process.env['PORT'] ?? 3000)).then(({ port, close }) => {
  console.log(\`http://localhost:\${port}/charges\`)
  process.once('SIGTERM', () => void close())
})
`

function testText(runner: string): string {
  return `import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from '${runner}'
import { listen } from './charges.js'
import { migrate } from './once.js'

test('a retry gets the first answer, and another request with the same key is refused', async () => {
  await migrate()
  const { port, close } = await listen(0)
  const headers = { 'content-type': 'application/json', 'idempotency-key': \`"\${randomUUID()}"\` }
  const post = (amount: number) =>
    fetch(\`http://localhost:\${port}/charges\`, { method: 'POST', headers, body: JSON.stringify({ amount }) })
  try {
    const [first, retry, other] = [await post(500), await post(500), await post(700)]
    const charge = await first.json()
    assert.equal(first.status, 201)
    assert.deepEqual(await retry.json(), charge)
    assert.equal(other.status, 422)
  } finally {
    await close()
  }
})
`
}
