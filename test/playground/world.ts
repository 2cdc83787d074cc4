import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { userInfo } from 'node:os'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { chromium, type Browser } from 'playwright-core'
import type { Snapshot } from '../../examples/playground/playground.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const OPEN_MS = 180_000
const LOOK_MS = 200

/** A playground in a process of its own, as a visitor starts it. */
export interface Started {
  readonly url: string
  readonly startMs: number
  readonly child: ChildProcess
  snapshot(): Promise<Snapshot>
  post(path: string, body: unknown): Promise<{ status: number; body: unknown }>
  /** Looks again and again until the condition holds. */
  until(holds: (snapshot: Snapshot) => boolean, what: string, ms?: number): Promise<Snapshot>
  /** Ctrl-C. Answers with the exit code. */
  stop(): Promise<number | null>
}

export async function startPlayground(
  program = 'examples/playground/main.ts',
  environment: Readonly<Record<string, string>> = {},
): Promise<Started> {
  const began = performance.now()
  const env = { ...process.env, PORT: '0', NO_COLOR: '1', ...environment }
  const child = spawn(process.execPath, ['--import', 'tsx', program], {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit') as Promise<[code: number | null]>
  const url = await addressOf(child)
  const snapshot = async (): Promise<Snapshot> => (await (await fetch(`${url}snapshot`)).json()) as Snapshot
  return {
    url,
    startMs: performance.now() - began,
    child,
    snapshot,
    async post(path, body) {
      const answer = await fetch(new URL(path, url), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      return { status: answer.status, body: await answer.json() }
    },
    async until(holds, what, ms = 90_000) {
      const deadline = performance.now() + ms
      for (;;) {
        const now = await snapshot()
        if (holds(now)) return now
        if (performance.now() > deadline) throw new Error(`not in ${ms} ms: ${what}. ${JSON.stringify(now.rounds)}`)
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      }
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGINT')
      return (await exited)[0]
    },
  }
}

async function addressOf(child: ChildProcess): Promise<string> {
  const timer = setTimeout(() => child.kill('SIGKILL'), OPEN_MS)
  const lines: string[] = []
  if (!child.stdout) throw new Error('no output')
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    const [, url] = /The playground is open: (\S+)/.exec(line) ?? []
    if (url === undefined) continue
    clearTimeout(timer)
    child.stdout.resume()
    return url
  }
  throw new Error(`the playground did not open:\n${lines.join('\n')}`)
}

export function launch(executable: string): Promise<Browser> {
  // Chromium has no sandbox for root.
  const args = userInfo().uid === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath: executable, args: [...args, '--disable-dev-shm-usage'] })
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
