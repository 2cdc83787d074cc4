import { HalfOpen, isDeadline, LineBroken } from './failure.ts'
import type { BeginOptions, MemoryDatabase } from './database.ts'
import type { Transaction } from './transaction.ts'

/**
 * A point at which a statement can be stopped.
 * `send`: before the statement reaches the server.
 * `work`: inside the server, between a statement's snapshot and its locks or between two pipelined statements.
 * `reply`: after the statement was executed, before the client receives the reply.
 */
export interface StepPoint {
  readonly label: string
  readonly at: 'send' | 'work' | 'reply'
  readonly connection: Connection
}

/**
 * Called at every step point. A returned promise stops the statement at that point until it resolves. An error thrown
 * at `send` or `reply` breaks the connection. An error thrown at `work` is the failure of the statement itself.
 */
export type Step = (point: StepPoint) => Promise<void> | undefined

/** The context in which the body of a statement runs inside the server. */
export interface Work {
  readonly database: MemoryDatabase
  readonly tx: Transaction
  pause(label: string): Promise<void> | undefined
}

/** One connection to the server. It has one transaction at a time, and runs statements one after the other. */
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

  /** `begin` is not a round trip of its own: the client sends it together with the first statement. */
  begin(options: BeginOptions): Transaction {
    this.tx = this.database.begin(options)
    return this.tx
  }

  /** Runs one round trip at a time. A second caller waits in the queue until the current round trip ends. */
  async trip<T>(label: string, body: (work: Omit<Work, 'tx'>) => Promise<T>): Promise<T> {
    if (this.busy) await new Promise<void>((resolve) => this.queue.push(resolve))
    this.busy = true
    try {
      return await this.travel(label, body)
    } finally {
      const next = this.queue.shift()
      // The connection stays busy for the next caller in the queue, so that no other caller overtakes it.
      if (next === undefined) this.busy = false
      else next()
    }
  }

  /** The bodies run one after the other, even if the client disconnects meanwhile. */
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

  /** Runs one statement of the open transaction. An error fails the whole transaction. */
  statement<T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> {
    return this.trip(label, (server) => this.execute(server, label, body))
  }

  /** Runs one statement inside a round trip that carries several. */
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

  /** The server notices that the client is gone. It rolls back after the current statement. */
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
