import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { CrashPoint, ServiceName } from './settings.ts'

const RESTART_MS = 100
/** Data that the dead process had already sent may still arrive. */
const LAST_WORDS_MS = 500
const KILLS_KEPT = 50

export interface Killed {
  readonly at: number
  readonly service: ServiceName
  /** The point at which it was killed, or 'anywhere'. */
  readonly point: CrashPoint | 'anywhere'
  readonly pid: number
}

export interface SupervisorOptions {
  readonly name: ServiceName
  readonly args: readonly string[]
  readonly onGone?: () => void
}

interface Spare {
  readonly child: ChildProcess
  loaded: boolean
}

/** Runs one service as a real process, kills it with SIGKILL at a given point, and starts it again. */
export class Supervisor {
  readonly name: ServiceName
  readonly kills: Killed[] = []
  killCount = 0
  /** The number of the process that runs now. */
  boot = 0
  /** Processes before this one are gone for good, with everything that they had only in memory. */
  goneBefore = 0
  port = 0
  state: 'starting' | 'up' | 'down' = 'down'
  readonly #args: readonly string[]
  readonly #onGone: () => void
  readonly #timers = new Set<NodeJS.Timeout>()
  #child: ChildProcess | undefined
  #spare: Spare | undefined
  #stopped = false
  #upSince = 0
  #firstReady: () => void = () => {}

  constructor({ name, args, onGone = () => {} }: SupervisorOptions) {
    this.name = name
    this.#args = args
    this.#onGone = onGone
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Another process waits to take over. */
  get hasSpare(): boolean {
    return this.#spare?.loaded ?? false
  }

  get upForMs(): number {
    return this.state === 'up' ? Date.now() - this.#upSince : 0
  }

  /** Resolves when the service answers for the first time. */
  start(): Promise<void> {
    const ready = new Promise<void>((resolve) => (this.#firstReady = resolve))
    this.#prepareSpare()
    return ready
  }

  /** The process stops the next time it reaches this point, and is killed. */
  arm(point: CrashPoint): void {
    if (this.state === 'up' && this.#child?.connected) this.#child.send({ arm: point }, () => {})
  }

  disarm(): void {
    if (this.state === 'up' && this.#child?.connected) this.#child.send({ arm: null }, () => {})
  }

  /** Kills the process at once, at any point. */
  kill(point: Killed['point'] = 'anywhere'): boolean {
    const child = this.#child
    if (!child?.pid || !child.kill('SIGKILL')) return false
    this.killCount++
    this.kills.push({ at: Date.now(), service: this.name, point, pid: child.pid })
    if (this.kills.length > KILLS_KEPT) this.kills.shift()
    return true
  }

  async stop(): Promise<void> {
    this.#stopped = true
    for (const timer of this.#timers) clearTimeout(timer)
    await Promise.all([end(this.#child), end(this.#spare?.child)])
  }

  /** A preloaded standby process, so that the next process starts at once. */
  #prepareSpare(): void {
    if (this.#stopped) return
    const script = fileURLToPath(new URL(`services/${this.name}.ts`, import.meta.url))
    const child = spawn(process.execPath, [...process.execArgv, script, ...this.#args], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    })
    const spare: Spare = { child, loaded: false }
    this.#spare = spare
    child.on('message', ({ loaded, port }: { loaded?: boolean; port?: number }) => {
      if (loaded) spare.loaded = true
      if (loaded && !this.#child) this.#promote()
      if (port !== undefined) this.#up(child, port)
    })
    child.on('error', () => this.#gone(child))
    child.on('exit', () => this.#gone(child))
    // A line means that the process has stopped at this point.
    if (child.stdout) createInterface({ input: child.stdout }).on('line', (point) => this.kill(point as CrashPoint))
  }

  #promote(): void {
    const spare = this.#spare
    if (!spare?.loaded) return
    this.#spare = undefined
    this.#child = spare.child
    this.state = 'starting'
    spare.child.send({ boot: ++this.boot, port: this.port }, () => {})
    this.#prepareSpare()
  }

  #up(child: ChildProcess, port: number): void {
    if (this.#child !== child) return
    this.state = 'up'
    this.#upSince = Date.now()
    this.port = port
    this.#firstReady()
  }

  #gone(child: ChildProcess): void {
    if (this.#spare?.child === child) {
      this.#spare = undefined
      this.#later(RESTART_MS, () => this.#prepareSpare())
    }
    if (this.#child !== child) return
    this.#child = undefined
    this.state = 'down'
    this.#onGone()
    const gone = this.boot + 1
    this.#later(LAST_WORDS_MS, () => (this.goneBefore = gone))
    this.#later(RESTART_MS, () => this.#promote())
  }

  #later(ms: number, then: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      then()
    }, ms)
    this.#timers.add(timer)
  }
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await exited
}
