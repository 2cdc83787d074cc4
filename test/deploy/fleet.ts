import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { programBeside } from '../../scripts/program.ts'

const READY_MS = 120_000
const STARTS_MAX = 5

/** How a place of the fleet is filled: the program and its arguments. */
export interface Role {
  readonly name: string
  readonly program: 'api-process' | 'worker-process'
  readonly args: readonly string[]
}

/** One process of a role. It prints one line when it is ready: an API prints its port. */
export class Member {
  readonly role: Role
  readonly line: string
  readonly #child: ChildProcess

  private constructor(role: Role, child: ChildProcess, line: string) {
    this.role = role
    this.#child = child
    this.line = line
  }

  /** As a platform does: a process that cannot begin, such as on a busy machine, is started again. */
  static async start(role: Role): Promise<Member> {
    for (let tries = 1; ; tries++) {
      try {
        return await Member.#startOnce(role)
      } catch (error) {
        if (tries === STARTS_MAX) throw error
        console.error(String(error))
      }
    }
  }

  static async #startOnce(role: Role): Promise<Member> {
    const { file, execArgv } = programBeside(import.meta.url, role.program)
    const child = spawn(process.execPath, [...execArgv, file, ...role.args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, NODE_ENV: 'production' },
    })
    const ended = new AbortController()
    const late = new Promise<never>((_, reject) => {
      const timer = setTimeout(() => reject(new Error(`${role.name} is not ready after ${READY_MS} ms`)), READY_MS)
      ended.signal.addEventListener('abort', () => clearTimeout(timer))
    })
    const died = once(child, 'exit').then(([code]) => {
      throw new Error(`${role.name} ended with ${String(code)} before it was ready`)
    })
    died.catch(() => {})
    try {
      const [line] = (await Promise.race([once(child.stdout, 'data'), died, late])) as [Buffer]
      child.stdout.resume()
      return new Member(role, child, line.toString().trim())
    } catch (error) {
      child.kill('SIGKILL')
      throw error
    } finally {
      ended.abort()
    }
  }

  /** Sends SIGTERM. Returns after how long the process was gone. A process that stays is killed, and that is late. */
  async end(withinMs: number): Promise<{ readonly ms: number; readonly isLate: boolean }> {
    const { exitCode, signalCode } = this.#child
    if (exitCode !== null || signalCode !== null) throw new Error(`${this.role.name} was gone before its SIGTERM`)
    const gone = once(this.#child, 'exit')
    const at = performance.now()
    this.#child.kill('SIGTERM')
    const killer = setTimeout(() => this.#child.kill('SIGKILL'), withinMs * 2)
    const [code] = (await gone) as [number | null]
    clearTimeout(killer)
    const ms = performance.now() - at
    return { ms, isLate: ms > withinMs || code !== 0 }
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
