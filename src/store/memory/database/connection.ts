import { HalfOpen, isDeadline, LineBroken } from './failure.ts'
import type { BeginOptions, MemoryDatabase } from './database.ts'
import type { Transaction } from './transaction.ts'

/**
 * Where a statement can be stopped: `send` before the server has it, `work` inside the server (between a statement's
 * snapshot and its locks, between two pipelined statements), `reply` after it happened and before anybody was told.
 */
export interface StepPoint {
  readonly label: string
  readonly at: 'send' | 'work' | 'reply'
  readonly connection: Connection
}

/**
 * Called at every such point; a promise holds the statement there. What it throws at `send` or `reply` is a broken
 * line; at `work` it is the statement's own failure.
 */
export type Step = (point: StepPoint) => Promise<void> | undefined

/** What a statement's body works with, inside the server. */
export interface Work {
  readonly database: MemoryDatabase
  readonly tx: Transaction
  pause(label: string): Promise<void> | undefined
}

/** One connection to the server: one transaction at a time, statements one after the other. */
export class Connection {
  readonly database: MemoryDatabase
  tx: Transaction | null = null
  broken = false
  private readonly step: Step | null
  private executing = false
  private busy = false
  private readonly queue: (() => void)[] = []
  private hungUp = false

  constructor(database: MemoryDatabase, step: Step | null) {
    this.database = database
    this.step = step
  }

  /** `begin`, not a trip of its own: it travels with the first statement. */
  begin(options: BeginOptions): Transaction {
    this.tx = this.database.begin(options)
    return this.tx
  }

  /** One trip at a time: whoever sends while another one is under way waits in line. */
  async trip<T>(label: string, body: (work: Omit<Work, 'tx'>) => Promise<T>): Promise<T> {
    if (this.busy) await new Promise<void>((resolve) => this.queue.push(resolve))
    this.busy = true
    try {
      return await this.travel(label, body)
    } finally {
      const next = this.queue.shift()
      // The line is handed over: nobody comes between.
      if (next === undefined) this.busy = false
      else next()
    }
  }

  /** The bodies run one after the other, whatever happens to the client meanwhile. */
  private async travel<T>(label: string, body: (work: Omit<Work, 'tx'>) => Promise<T>): Promise<T> {
    if (this.broken) throw new LineBroken()
    await this.pass(label, 'send')
    if (this.broken) throw new LineBroken()
    this.executing = true
    let outcome: { readonly value: T } | { readonly error: unknown }
    try {
      outcome = {
        value: await body({
          database: this.database,
          pause: (at) => this.step?.({ label: at, at: 'work', connection: this }),
        }),
      }
    } catch (error) {
      outcome = { error }
    }
    this.executing = false
    if (this.hungUp) this.hangUp()
    await this.pass(label, 'reply')
    if ('value' in outcome) return outcome.value
    if (isDeadline(outcome.error)) this.breakLine()
    throw outcome.error
  }

  /** One statement of the open transaction: an error makes the transaction fail as a whole. */
  statement<T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> {
    return this.trip(label, (server) => this.execute(server, label, body))
  }

  /** The same inside a trip that has several. */
  async execute<T>(server: Omit<Work, 'tx'>, label: string, body: (work: Work) => T | Promise<T>): Promise<T> {
    const tx = this.tx
    if (tx === null) throw new LineBroken()
    tx.check()
    try {
      const pause = server.pause(label)
      if (pause !== undefined) await pause
      tx.check()
      const value = await body({ ...server, tx })
      tx.check()
      return value
    } catch (error) {
      tx.fail()
      throw error
    }
  }

  /** The server notices that nobody is there any more: after the statement under way, it rolls back. */
  hangUp(): void {
    this.broken = true
    this.hungUp = true
    if (!this.executing) this.tx?.kill(new LineBroken())
  }

  private async pass(label: string, at: 'send' | 'reply'): Promise<void> {
    try {
      const pause = this.step?.({ label, at, connection: this })
      if (pause !== undefined) await pause
    } catch (cause) {
      if (cause instanceof HalfOpen) this.broken = true
      else this.breakLine()
      throw new LineBroken(cause)
    }
  }

  private breakLine(): void {
    this.broken = true
    this.tx?.kill(new LineBroken())
  }
}
