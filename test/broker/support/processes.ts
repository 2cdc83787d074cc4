import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { programBeside } from '../../../scripts/program.ts'

const READY_MS = 90_000

/** Child processes of one program, killed without warning and replaced. Each prints a line when it is ready. */
export class Processes {
  readonly #program: { readonly file: string; readonly execArgv: readonly string[] }
  readonly #args: readonly string[]
  readonly #running = new Set<ChildProcess>()
  kills = 0

  /** `program`: the name of a file beside this one, without its ending. */
  constructor(program: string, args: readonly string[]) {
    this.#program = programBeside(import.meta.url, program)
    this.#args = args
  }

  async start(count = 1): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#startOne()))
  }

  /** Kills one of them with SIGKILL: the one with this number if it runs, else any. */
  killOne(pid?: number): void {
    const running = [...this.#running]
    const chosen = running.find((child) => child.pid === pid)
    const victim = chosen ?? running[Math.floor(Math.random() * running.length)]
    if (victim?.kill('SIGKILL')) this.kills++
  }

  /** Kills one of them with SIGKILL and starts another one. */
  async replaceOne(pid?: number): Promise<void> {
    this.killOne(pid)
    await this.start()
  }

  /** Ends them all, and waits until they are gone. */
  async end(): Promise<void> {
    const gone = [...this.#running].map((child) => once(child, 'exit'))
    for (const child of this.#running) child.kill('SIGKILL')
    await Promise.all(gone)
  }

  async #startOne(): Promise<void> {
    const { file, execArgv } = this.#program
    const child = spawn(process.execPath, [...execArgv, file, ...this.#args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, NODE_ENV: 'production' },
    })
    this.#running.add(child)
    child.on('exit', () => this.#running.delete(child))
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${file} is not ready after ${READY_MS} ms`)), READY_MS)
    })
    try {
      // What it prints later is read and dropped.
      await Promise.race([once(child.stdout.resume(), 'data'), once(child, 'exit'), late])
    } finally {
      clearTimeout(timer)
    }
    if (child.exitCode !== null) throw new Error(`${file} ended with code ${child.exitCode} before it was ready`)
  }
}
