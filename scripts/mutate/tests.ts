import { fork, type ChildProcess } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunAnswer, RunOrder } from './runner.ts'

/** So long may a new runner take to start its servers. */
const START_MS = 120_000
/** So long may a runner take to end: its servers end with it. */
const END_MS = 20_000

export type Ran = { readonly kind: 'passed' | 'failed' | 'late'; readonly why: string }

/** Runs test files of a tree, one at a time, in one process that is started again after a run that does not end. */
export class Tests {
  readonly #root: string
  #runner: ChildProcess | undefined
  readonly #changed = new Set<string>()

  constructor(root: string) {
    this.#root = root
  }

  /** The text of this file is another one now. */
  changed(file: string): void {
    this.#changed.add(file)
  }

  /** Until the first failure, or until the time is over. */
  async run(test: string, limitMs: number, reachInto?: string): Promise<Ran> {
    const isNew = this.#runner === undefined
    const runner = (this.#runner ??= this.#start())
    const order: RunOrder = { test, changed: [...this.#changed], reachInto }
    this.#changed.clear()
    if (reachInto !== undefined) await rm(reachInto, { force: true })
    const answer = await new Promise<RunAnswer | 'late' | 'ended'>((resolve) => {
      const timer = setTimeout(() => resolve('late'), limitMs + (isNew ? START_MS : 0))
      const end = (found: RunAnswer | 'ended'): void => {
        clearTimeout(timer)
        runner.off('message', end).off('exit', ended)
        resolve(found)
      }
      const ended = (): void => end('ended')
      runner.on('message', end).on('exit', ended)
      runner.send(order)
    })
    if (answer === 'late' || answer === 'ended') {
      await this.close(true)
      return answer === 'late'
        ? { kind: 'late', why: `took over ${limitMs} ms` }
        : { kind: 'failed', why: 'the runner ended' }
    }
    return answer.failure === undefined ? { kind: 'passed', why: '' } : { kind: 'failed', why: answer.failure }
  }

  #start(): ChildProcess {
    const program = join(this.#root, 'scripts', 'mutate', 'runner.ts')
    const stdio = ['ignore', 'ignore', 'ignore', 'ipc'] as const
    // A group of its own: a test that never ends is killed with the runner.
    return fork(program, { cwd: this.#root, execArgv: ['--import', 'tsx'], stdio: [...stdio], detached: true })
  }

  async close(now = false): Promise<void> {
    const runner = this.#runner
    this.#runner = undefined
    if (runner?.pid === undefined || runner.exitCode !== null || runner.signalCode !== null) return
    const { pid } = runner
    const ended = new Promise((resolve) => runner.on('exit', resolve))
    const kill = (): void => {
      try {
        process.kill(-pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    if (now) kill()
    else runner.disconnect()
    const killer = setTimeout(kill, END_MS)
    await ended
    clearTimeout(killer)
  }
}
