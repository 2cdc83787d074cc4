import { execFile, spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
let built: string | undefined

afterAll(() => {
  if (built !== undefined) rmSync(dirname(dirname(built)), { recursive: true, force: true })
})

/** Compiled once, as users run it: a loader takes longer than most commands. Inside the repository, where packages resolve. */
function main(): string {
  if (built !== undefined) return built
  const folder = join(ROOT, '.compiled', `cli-${process.pid}`)
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--noCheck', '--outDir', folder], { cwd: ROOT })
  built = join(folder, 'cli', 'main.js')
  if (!existsSync(built)) throw new Error('the command line could not be compiled')
  return built
}

/** The folder of the compiled package. */
export function compiled(): string {
  return dirname(dirname(main()))
}

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** The command line, spawned for real. */
export function cli(
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; input?: string; cwd?: string } = {},
): Promise<Ran> {
  const env = { ...process.env, DATABASE_URL: '', WEBHOOK_SECRET: '', ...options.env }
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main(), ...args], { env, cwd: options.cwd }, (error, out, err) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, out, err })
    })
    child.stdin?.end(options.input ?? '')
  })
}

/** Two at a time: every one is a process that loads everything. */
export async function cliEach(runs: readonly (readonly string[])[]): Promise<Ran[]> {
  const results: Ran[] = []
  const queue = [...runs.entries()]
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next; next = queue.shift()) results[next[0]] = await cli(next[1])
  }
  await Promise.all([work(), work()])
  return results
}
