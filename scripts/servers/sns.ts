import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { debianBinary } from './debian.ts'
import { run } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { dockerImage, startKept } from './start-kept.ts'

const MOTO = '5.2.5'
const IMAGE = `motoserver/moto:${MOTO}`
const READY_MS = 60_000
const PIP_MS = 540_000
const FOLDER = fileURLToPath(new URL(`../../node_modules/.cache/effectively-once/moto-${MOTO}`, import.meta.url))

/** moto, which imitates SNS and the queues of SQS that subscribe to its topics. Its data is in memory. */
export const snsRecipe: ServerRecipe = {
  name: 'sns',
  environmentVariable: 'SNS_URL',
  ways: [
    { name: 'docker', start: startInDocker },
    { name: 'pip', start: startFromPip },
  ],
}

async function startFromPip(): Promise<RunningServer> {
  const python = await packages()
  return started((port) => ({
    command: python,
    args: ['-m', 'moto.server', '--host', '127.0.0.1', '--port', String(port)],
  }))
}

async function startInDocker(): Promise<RunningServer> {
  await dockerImage(IMAGE)
  return started((port) => ({ command: 'docker', args: ['run', '--rm', `--publish=127.0.0.1:${port}:5000`, IMAGE] }))
}

async function started(
  command: (port: number) => { readonly command: string; readonly args: readonly string[] },
): Promise<RunningServer> {
  const { url, stop } = await startKept({
    owner: {},
    readyMs: READY_MS,
    prepare: async ({ port }) => ({ url: `http://127.0.0.1:${port}`, ...command(port) }),
    async answers(address) {
      const { status } = await fetch(`${address}/moto-api/data.json`, { signal: AbortSignal.timeout(2_000) })
      if (status !== 200) throw new Error(`moto answered ${status}`)
    },
  })
  return { url, stop }
}

/** Installs the packages once, in an environment of their own. Returns its Python. */
async function packages(): Promise<string> {
  const python = join(FOLDER, 'bin', 'python')
  const ready = join(FOLDER, 'ready')
  if (existsSync(ready)) return python
  const options = { timeoutMs: PIP_MS }
  await run('python3', ['-m', 'venv', FOLDER], options).catch(async () =>
    run(await debianBinary('python3', 'python3-venv'), ['-m', 'venv', FOLDER], options),
  )
  await run(python, ['-m', 'pip', 'install', '--quiet', `moto[server]==${MOTO}`], options)
  // An environment cannot be moved into its place when it is whole, so a file marks it.
  await writeFile(ready, '')
  return python
}
