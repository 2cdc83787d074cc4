import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** The command line, spawned for real. */
export function cli(args: readonly string[], options: { env?: NodeJS.ProcessEnv; input?: string } = {}): Promise<Ran> {
  const env = { ...process.env, DATABASE_URL: '', ONCE_WEBHOOK_SECRET: '', ...options.env }
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['--import', 'tsx', MAIN, ...args], { env }, (error, out, err) => {
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
