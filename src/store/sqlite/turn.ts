import { onceError, type OnceCode } from '../../errors.ts'
import type { Row } from '../store.ts'
import type { Client } from './client.ts'
import { isBusy, isConstraint, storeFailure } from './failure.ts'
import { type BusyRetry, pause } from './busy-retry.ts'
import type { Bindable } from './value.ts'

/** Why a transaction is over: what a later call through it is told. */
type Ending = 'done' | 'deadline' | 'rolledBack' | 'leaseLost' | 'taken'

const TOLD: Record<Ending, OnceCode> = {
  done: 'ONCE_TX_CLOSED',
  deadline: 'ONCE_DEADLINE',
  rolledBack: 'ONCE_ROLLED_BACK',
  leaseLost: 'ONCE_LEASE_LOST',
  taken: 'ONCE_TX_TAKEN',
}

/** Looks at the schema too: a table that another process changed is known from here on, before a user's `select *`. */
const TOTAL = 'select total_changes() as total, (select count(*) from (select 1 from sqlite_schema limit 1)) as known'

const ROLLED_BACK_PAST = 'A savepoint from before the operation was released, or rolled back to, inside it'

export interface TurnOptions {
  readonly client: Client
  readonly retry: BusyRetry
  readonly holdMs: number
  readonly warnMs: number
  /** Called once when the turn has been held for `warnMs`. */
  readonly warn: () => void
  /** Called once at the end. `unfinished`: the rollback failed and must be made up for. */
  readonly leave: (unfinished: boolean) => void
}

/** One turn at the writer: an open `begin immediate` transaction that somebody ends, or the deadline does. */
export class Turn {
  readonly #options: TurnOptions
  readonly #since: number
  #ending: Ending | undefined
  #committing = false
  #warned = false
  #cancelTimer: () => void = () => {}
  /** Rows changed so far by our own statements. */
  #ours = 0
  /** Rows that were not written through tx: total_changes() before its first use, and what was ours by then. */
  #before: { readonly total: number; readonly ours: number } | undefined

  constructor(options: TurnOptions) {
    this.#options = options
    this.#since = options.retry.clock.now()
    this.#arm()
  }

  /** SQLite rolled back by itself after a failed statement. */
  get rolledBack(): boolean {
    return this.#ending === 'rolledBack'
  }

  /** Throws when the transaction is over, and ends it when it is late: a timer may be late too. */
  check(): void {
    if (this.#ending === undefined && this.#leftMs() <= 0) this.#abort('deadline')
    if (this.#ending !== undefined) throw onceError(TOLD[this.#ending])
    if (this.#committing) throw onceError('ONCE_TX_CLOSED')
  }

  /** Rows of one of our own statements: a select, or a write with `returning`. */
  all(sql: string, values?: readonly Bindable[]): Row[] {
    const rows = this.#own((client) => client.all(sql, values))
    if (!sql.startsWith('select')) this.#ours += rows.length
    return rows
  }

  /** Rows changed by one of our own inserts, updates or deletes. */
  run(sql: string, values?: readonly Bindable[]): number {
    const changes = this.#own((client) => client.run(sql, values))
    this.#ours += changes
    return changes
  }

  /** One of our own statements that changes no rows: a library may report the count of the statement before it. */
  exec(sql: string): void {
    this.#own((client) => client.run(sql))
  }

  /**
   * Releases a savepoint of ours, or rolls back to it. Where a handler has rolled back past it, it is gone, and nobody can
   * tell whose the rows are that came after it: nothing of this transaction stays.
   */
  endSavepoint(commands: readonly string[]): void {
    this.check()
    try {
      for (const sql of commands) this.exec(sql)
    } catch (error) {
      if (this.#ending !== undefined) throw error
      this.#abort('taken')
      throw onceError('ONCE_TX_TAKEN', { detail: ROLLED_BACK_PAST, cause: error })
    }
  }

  /** A user's statement: its errors are thrown as they come. */
  user<T>(work: (client: Client) => T): T {
    this.check()
    this.#before ??= { total: this.#total(), ours: this.#ours }
    return this.#guarded(work)
  }

  /** Rows written by the user's statements. */
  written(): number {
    this.check()
    if (!this.#before) return 0
    return this.#total() - this.#before.total - (this.#ours - this.#before.ours)
  }

  async commit(): Promise<'committed' | 'rolledBack'> {
    if (this.rolledBack) return 'rolledBack'
    this.check()
    this.#committing = true
    while (!this.#tryCommit()) {
      await pause(this.#options.retry)
      if (this.#ending !== undefined) throw onceError(TOLD[this.#ending])
    }
    return 'committed'
  }

  rollback(): void {
    if (this.#ending === undefined) this.#abort('done')
  }

  /** The record is not ours any more. Nothing of this transaction stays, and no later call through it succeeds. */
  loseLease(): Error {
    if (this.#ending === undefined) this.#abort('leaseLost')
    return onceError('ONCE_LEASE_LOST')
  }

  #own<T>(work: (client: Client) => T): T {
    this.check()
    try {
      return this.#guarded(work)
    } catch (error) {
      throw storeFailure(error, this.#options.retry.file)
    }
  }

  /** After some errors SQLite has rolled back by itself; every further statement would then commit alone. */
  #guarded<T>(work: (client: Client) => T): T {
    try {
      return work(this.#options.client)
    } catch (error) {
      if (!this.#options.client.inTransaction()) this.#end('rolledBack', false)
      throw error
    }
  }

  #total(): number {
    return Number(this.#options.client.all(TOTAL)[0]?.['total'])
  }

  /** False: another process is in the way, so try again. */
  #tryCommit(): boolean {
    const { client, retry } = this.#options
    try {
      client.run('commit')
    } catch (error) {
      const open = client.inTransaction()
      if (open && isBusy(error)) return false
      this.#abort('done')
      // Only a deferred constraint leaves the transaction open: it is the user's error, and nothing was committed.
      if (open) throw isConstraint(error) ? error : storeFailure(error, retry.file)
      throw onceError('ONCE_COMMIT_UNKNOWN', { cause: error })
    }
    this.#end('done', false)
    return true
  }

  #abort(ending: Ending): void {
    const { client } = this.#options
    try {
      client.run('rollback')
    } catch {
      // There was none to roll back, or it could not be done: the next line tells.
    }
    this.#end(ending, client.inTransaction())
  }

  #end(ending: Ending, unfinished: boolean): void {
    this.#ending = ending
    this.#cancelTimer()
    this.#options.leave(unfinished)
  }

  #leftMs(): number {
    return this.#since + this.#options.holdMs - this.#options.retry.clock.now()
  }

  #arm(): void {
    const { holdMs, warnMs, retry } = this.#options
    const untilWarningMs = this.#leftMs() - holdMs + warnMs
    const ms = this.#warned ? this.#leftMs() : Math.min(this.#leftMs(), untilWarningMs)
    this.#cancelTimer = retry.clock.after(Math.max(ms, 1), () => this.#ring(), true)
  }

  #ring(): void {
    if (this.#leftMs() <= 0) return this.#abort('deadline')
    if (!this.#warned && this.#options.holdMs - this.#leftMs() >= this.#options.warnMs) {
      this.#warned = true
      this.#options.warn()
    }
    this.#arm()
  }
}
