import { fork, type ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Duration } from '../../src/index.ts'
import type { CrashPoint } from './crashing-store.ts'

const PROGRAM = new URL('./worker.ts', import.meta.url)

export interface Command {
  readonly number: number
  readonly key: string
  readonly amount: number
  readonly holdMs?: number
  readonly deadline?: Duration
  readonly lease?: Duration
  readonly crashAt?: CrashPoint
}

export interface Reply {
  readonly number: number
  /** 'died': the process ended before it could answer. */
  readonly outcome: 'ready' | 'inside' | 'value' | 'error' | 'died'
  readonly value?: unknown
  readonly code?: string
  readonly tookMs?: number
}

/** A child process that charges on command and may be killed at any time. */
export class Worker {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (reply: Reply) => void>()
  #number = 0

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (reply: Reply) => {
      this.#waiting.get(reply.number)?.(reply)
      this.#waiting.delete(reply.number)
    })
    child.on('exit', () => {
      for (const [number, resolve] of this.#waiting) resolve({ number, outcome: 'died' })
      this.#waiting.clear()
    })
  }

  static async start(url: string, program: URL = PROGRAM, env: Record<string, string> = {}): Promise<Worker> {
    const child = fork(fileURLToPath(program), [], {
      execArgv: program.pathname.endsWith('.ts') ? ['--import', 'tsx'] : [],
      env: { ...process.env, CHAOS_URL: url, NODE_ENV: 'production', ...env },
    })
    const worker = new Worker(child)
    await worker.#reply(-1)
    return worker
  }

  get alive(): boolean {
    return this.#child.connected && this.#child.exitCode === null && this.#child.signalCode === null
  }

  charge(command: Omit<Command, 'number'>): Promise<Reply> {
    const number = ++this.#number
    const reply = this.#reply(number)
    if (this.#child.connected) this.#child.send({ ...command, number })
    else this.#waiting.get(number)?.({ number, outcome: 'died' })
    return reply
  }

  /** Resolves when the handler has made its effect and is still inside its transaction. */
  inside(): Promise<Reply> {
    return this.#reply(-2)
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    this.#child.kill(signal)
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = onceEvent(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exit
  }

  #reply(number: number): Promise<Reply> {
    return new Promise((resolve) => this.#waiting.set(number, resolve))
  }
}
