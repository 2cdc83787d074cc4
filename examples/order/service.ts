import { spawn, type ChildProcess } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Word } from './services/serve.ts'

const START_MS_MAX = 60_000
const DEATHS_MAX = 20

/** Runs one service as a real process. Whenever the process ends, a new process takes its place at the same address. */
export class Service {
  readonly name: string
  readonly #args: readonly string[]
  #child: ChildProcess | undefined
  #port = 0
  #isListening = false
  #isOver = false
  /** How often the process ended by itself. It must never do that. */
  #deaths = 0
  #listening: () => void = () => {}
  kills = 0
  /** Deliveries that the process settled and reported before it died. */
  deliveries = 0

  constructor(name: string, args: readonly string[]) {
    this.name = name
    this.#args = args
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`
  }

  get isListening(): boolean {
    return this.#isListening
  }

  /** Resolves when the service listens, for the first time or again. */
  async start(): Promise<void> {
    if (!this.#child) this.#spawn()
    if (this.#isListening) return
    let late: NodeJS.Timeout | undefined
    const patience = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(new Error(`${this.name} does not listen`)), START_MS_MAX)
    })
    const listening = new Promise<void>((resolve) => (this.#listening = resolve))
    await Promise.race([listening, patience]).finally(() => clearTimeout(late))
  }

  /** Kills the process with SIGKILL, at any point. */
  kill(): void {
    if (this.#child?.kill('SIGKILL')) this.kills++
    this.#isListening = false
  }

  async stop(): Promise<void> {
    this.#isOver = true
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  #spawn(): void {
    // TypeScript or compiled, like this file.
    const extension = extname(import.meta.url)
    const file = fileURLToPath(new URL(`./services/${this.name}${extension}`, import.meta.url))
    const execArgv = extension === '.ts' ? ['--import', 'tsx'] : []
    const child = spawn(process.execPath, [...execArgv, file, String(this.#port), ...this.#args], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    })
    this.#child = child
    child.on('message', (word: Word) => {
      if ('delivered' in word) this.deliveries++
      else if (!child.killed) {
        this.#port = word.port
        this.#isListening = true
        this.#listening()
      }
    })
    child.on('exit', (_code, signal) => {
      this.#isListening = false
      if (signal !== 'SIGKILL') this.#deaths++
      if (!this.#isOver && this.#deaths < DEATHS_MAX) this.#spawn()
    })
  }
}
