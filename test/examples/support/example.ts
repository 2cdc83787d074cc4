import { spawn, type ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { CrashPoint } from '../../../examples/crash.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const PATIENCE_MS = 60_000
const LOOK_MS = 50

/** A numbered example as a process of its own. */
export class Example {
  readonly url: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number) {
    this.#child = child
    this.url = `http://127.0.0.1:${port}`
  }

  /** Started, not yet answering; `crashAt` is where it kills itself. */
  static async start(path: string, env: Record<string, string>, crashAt?: CrashPoint): Promise<Example> {
    const port = await freePort()
    const child = spawn(process.execPath, ['--import', 'tsx', `examples/${path}/main.ts`], {
      cwd: root,
      env: { ...process.env, ...env, PORT: String(port), NODE_NO_WARNINGS: '1', CRASH_AT: crashAt ?? '' },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    return new Example(child, port)
  }

  /** The answer; undefined when the process died instead. Waits until it listens. */
  async post(path: string, body: string, headers: Record<string, string>): Promise<Response | undefined> {
    const deadline = Date.now() + PATIENCE_MS
    while (Date.now() < deadline) {
      try {
        return await fetch(`${this.url}${path}`, { method: 'POST', body, headers })
      } catch {
        if (this.#child.signalCode !== null) return undefined
        if (this.#child.exitCode !== null) throw new Error(`the example ended with exit code ${this.#child.exitCode}`)
        await sleep(LOOK_MS)
      }
    }
    throw new Error('the example does not answer')
  }

  /** The signal it died of. */
  async death(): Promise<string | null> {
    const late = setTimeout(() => this.#child.kill('SIGTERM'), PATIENCE_MS)
    if (this.#child.exitCode === null && this.#child.signalCode === null) await onceEvent(this.#child, 'exit')
    clearTimeout(late)
    return this.#child.signalCode
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.death()
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** True as soon as it is so; false when it never was. */
export async function eventually(isSo: () => Promise<boolean>): Promise<boolean> {
  const deadline = Date.now() + PATIENCE_MS
  while (Date.now() < deadline) {
    if (await isSo()) return true
    await sleep(LOOK_MS)
  }
  return false
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await onceEvent(server, 'close')
  return port
}
