import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { programBeside } from '../../scripts/program.ts'
import type { Command, Word } from './child.ts'
import { Link } from './link.ts'

const READY_MS = 180_000
/** A deployment that takes longer is killed, as a service manager would do. */
const DEPLOY_MS = 20_000

export type Role = 'producer' | 'relay' | 'consumer'

/** A program and its purpose. When a process ends, another process with the same post replaces it. */
export interface Post {
  readonly name: string
  readonly role: Role
  /** The arguments after the address of the database. */
  readonly args: readonly string[]
}

/** One process with its own link to the database, and its latest report. */
export class Member {
  readonly post: Post
  readonly link: Link
  readonly #child: ChildProcess
  done = 0
  troubles = 0
  last = ''
  isReady = false
  /** SIGSTOP was sent, so the process cannot report. */
  isHeld = false
  progressedAt: number = performance.now()
  toldAt: number = -Infinity

  constructor(post: Post, link: Link, child: ChildProcess) {
    this.post = post
    this.link = link
    this.#child = child
    createInterface({ input: child.stdout! }).on('line', (line) => this.#hear(line))
  }

  #hear(line: string): void {
    const word = JSON.parse(line) as Word
    const now = performance.now()
    if (word.done > this.done) this.progressedAt = now
    if (word.troubles > this.troubles) this.toldAt = now
    if (word.ready) this.isReady = true
    this.done = word.done
    this.troubles = word.troubles
    this.last = word.last
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  hold(): void {
    this.isHeld = true
    this.#child.kill('SIGSTOP')
  }

  /** Resumes the process, which is expected to make progress again. */
  release(): void {
    this.#child.kill('SIGCONT')
    this.isHeld = false
    this.progressedAt = performance.now()
  }

  tell(command: Command): void {
    if (!this.hasEnded) this.#child.stdin?.write(`${command}\n`)
  }

  /** Returns whether the process ended in time. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<boolean> {
    const inTime = this.hasEnded || (await this.#endWithin(signal, DEPLOY_MS))
    if (!inTime) await this.#endWithin('SIGKILL', DEPLOY_MS)
    await this.link.close()
    return inTime
  }

  async #endWithin(signal: NodeJS.Signals, ms: number): Promise<boolean> {
    const waiting = new AbortController()
    const exited = once(this.#child, 'exit')
    this.#child.kill(signal)
    const late = sleep(ms, 'late', { signal: waiting.signal }).catch(() => 'late')
    const first = await Promise.race([exited, late])
    waiting.abort()
    return first !== 'late'
  }
}

/** All processes. Every post is filled, except during a fault of its process. */
export class Crew {
  readonly #members = new Map<string, Member>()
  readonly #url: () => string

  /** `url` returns the current address of the database. */
  constructor(url: () => string) {
    this.#url = url
  }

  get members(): readonly Member[] {
    return [...this.#members.values()]
  }

  of(role: Role): readonly Member[] {
    return this.members.filter(({ post }) => post.role === role)
  }

  async occupy(post: Post): Promise<Member> {
    const link = await Link.open(Number(new URL(this.#url()).port))
    const { file, execArgv } = programBeside(import.meta.url, `${post.role}-process`)
    const child = spawn(process.execPath, [...execArgv, file, link.through(this.#url()), ...post.args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, NODE_ENV: 'production' },
    })
    child.stdin.on('error', () => {})
    const member = new Member(post, link, child)
    this.#members.set(post.name, member)
    return member
  }

  async untilReady(): Promise<void> {
    const deadline = performance.now() + READY_MS
    while (performance.now() < deadline) {
      if (this.members.every(({ isReady }) => isReady)) return
      await sleep(100)
    }
    const late = this.members.filter(({ isReady }) => !isReady)
    throw new Error(`not ready: ${late.map(({ post, last }) => `${post.name} (${last})`).join(', ')}`)
  }

  /**
   * Ends a process and starts its replacement, with other arguments if given. Returns whether the process ended in
   * time.
   */
  async replace(member: Member, signal: 'SIGTERM' | 'SIGKILL', args = member.post.args): Promise<boolean> {
    const inTime = await member.end(signal)
    await this.occupy({ ...member.post, args })
    return inTime
  }

  async dismiss(role: Role): Promise<void> {
    const leaving = this.of(role)
    await Promise.all(leaving.map((member) => member.end('SIGTERM')))
    for (const { post } of leaving) this.#members.delete(post.name)
  }

  moved(port: number): void {
    for (const { link } of this.members) link.moved(port)
  }

  async end(): Promise<void> {
    for (const member of this.members) member.release()
    await Promise.all(this.members.map((member) => member.end('SIGKILL')))
    this.#members.clear()
  }
}
