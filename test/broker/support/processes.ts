import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const READY_MS = 30_000

/** Child processes of one script, killed without warning and replaced. Each prints a line when it is ready. */
export class Processes {
  readonly #script: string
  readonly #args: readonly string[]
  readonly #running = new Set<ChildProcess>()
  kills = 0

  /** `script` lies beside this file. */
  constructor(script: string, args: readonly string[]) {
    this.#script = fileURLToPath(new URL(script, import.meta.url))
    this.#args = args
  }

  async start(count = 1): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#startOne()))
  }

  /** Kills one of them with SIGKILL and starts another one. */
  async replaceOne(): Promise<void> {
    const running = [...this.#running]
    const victim = running[Math.floor(Math.random() * running.length)]
    if (victim?.kill('SIGKILL')) this.kills++
    await this.start()
  }

  /** Replaces one after the other at random moments until `over`. */
  async replaceUntil(over: () => boolean | Promise<boolean>, pauseMs: { min: number; max: number }): Promise<void> {
    while (!(await over())) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs.min + Math.random() * (pauseMs.max - pauseMs.min)))
      if (!(await over())) await this.replaceOne()
    }
  }

  /** Ends them all, and waits until they are gone. */
  async end(): Promise<void> {
    const gone = [...this.#running].map((child) => once(child, 'exit'))
    for (const child of this.#running) child.kill('SIGKILL')
    await Promise.all(gone)
  }

  async #startOne(): Promise<void> {
    const child = spawn(process.execPath, ['--import', 'tsx', this.#script, ...this.#args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_ENV: 'production' },
    })
    this.#running.add(child)
    child.on('exit', () => this.#running.delete(child))
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${this.#script} is not ready after ${READY_MS} ms`)), READY_MS)
    })
    try {
      // What it prints later is read and dropped.
      await Promise.race([once(child.stdout.resume(), 'data'), once(child, 'exit'), late])
    } finally {
      clearTimeout(timer)
    }
    if (child.exitCode !== null)
      throw new Error(`${this.#script} ended with code ${child.exitCode} before it was ready`)
  }
}
