import { onceError, type OnceCode } from '../../errors.ts'
import type { Row } from '../store.ts'
import type { Client } from './client.ts'
import type { BusyRetry } from './busy-retry.ts'
import type { CommitGroup } from './commit-group.ts'
import { storeFailure } from './failure.ts'
import type { Bindable } from './value.ts'

/** Why a transaction is over. A later call through it gets the matching error. */
type Ending = 'done' | 'deadline' | 'rolledBack' | 'leaseLost' | 'taken'

const TOLD: Record<Ending, OnceCode> = {
  done: 'ONCE_TX_CLOSED',
  deadline: 'ONCE_DEADLINE',
  rolledBack: 'ONCE_ROLLED_BACK',
  leaseLost: 'ONCE_LEASE_LOST',
  taken: 'ONCE_TX_TAKEN',
}

/** Also reads the schema, so that a table that another process changed is known before a user's `select *`. */
const TOTAL = 'select total_changes() as total, (select count(*) from (select 1 from sqlite_schema limit 1)) as known'

const SETTLED = Promise.resolve()

const ROLLED_BACK_PAST = 'The handler released, or rolled back to, a savepoint that is older than its operation'

export interface TurnOptions {
  readonly client: Client
  /** Has the transaction, and the earlier turns that wait for its commit. */
  readonly group: CommitGroup
  readonly retry: BusyRetry
  readonly holdMs: number
  readonly warnMs: number
  /** Called once when the turn has been held for `warnMs`. */
  readonly warn: () => void
  /** Called once at the end. `heldMs`: how long the turn took. */
  readonly leave: (heldMs: number) => void
}

/** One turn of the writer: a savepoint in an immediate transaction. Its caller ends it, or the deadline does. */
export class Turn {
  readonly #options: TurnOptions
  readonly #since: number
  /**
   * This turn may read the work of earlier turns that are not committed yet. They settle before this turn is answered.
   */
  readonly #before: Promise<void> | undefined
  #ending: Ending | undefined
  #warned = false
  #cancelTimer: () => void = () => {}
  /** Rows changed so far by our own statements. */
  #ours = 0
  /**
   * The counts before the first use of tx: total_changes(), and the rows that our own statements had changed by then.
   */
  #counted: { readonly total: number; readonly ours: number } | undefined

  constructor(options: TurnOptions) {
    this.#options = options
    this.#since = options.retry.clock.now()
    this.#before = options.group.size > 0 ? options.group.settled : undefined
    this.#arm()
  }

  /** SQLite rolled back by itself after a failed statement. */
  get rolledBack(): boolean {
    return this.#ending === 'rolledBack'
  }

  /** Throws if the transaction is over. Ends it if its deadline has passed, because a timer may fire late. */
  check(): void {
    if (this.#ending === undefined && this.#leftMs() <= 0) this.#abort('deadline')
    if (this.#ending !== undefined) throw onceError(TOLD[this.#ending])
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

  /** Runs one of our own statements that changes no rows. A library may report the count of the statement before it. */
  exec(sql: string): void {
    this.#own((client) => client.run(sql))
  }

  /**
   * Releases one of our savepoints, or rolls back to it. If a handler has rolled back past it, the savepoint is gone,
   * and the owner of later rows is unknown. Then the whole transaction is rolled back.
   */
  endSavepoint(commands: readonly string[]): void {
    this.check()
    try {
      for (const sql of commands) this.exec(sql)
    } catch (error) {
      throw this.#rolledBackPast(error)
    }
  }

  /** Runs a user's statement. Its errors are thrown unchanged. */
  user<T>(work: (client: Client) => T): T {
    this.check()
    this.#counted ??= { total: this.#total(), ours: this.#ours }
    return this.#guarded(work)
  }

  /** Rows written by the user's statements. */
  written(): number {
    this.check()
    if (!this.#counted) return 0
    return this.#total() - this.#counted.total - (this.#ours - this.#counted.ours)
  }

  /** Resolves when the data is on disk. Other turns may share the commit. Their failures do not fail this turn. */
  async commit(): Promise<'committed' | 'rolledBack'> {
    if (this.rolledBack) return 'rolledBack'
    this.check()
    let committed: Promise<'committed'>
    try {
      committed = this.#options.group.keep(this.#since + this.#options.holdMs)
    } catch (error) {
      throw this.#rolledBackPast(error)
    }
    this.#end('done')
    return committed
  }

  /**
   * Commits the earlier turns and starts this turn again, so that everything it reads is on disk. The turn has kept
   * nothing yet. False: there were no earlier turns.
   */
  async restart(): Promise<boolean> {
    this.check()
    if (this.#before === undefined || this.#options.group.size === 0) return false
    const { group, retry } = this.#options
    this.#cancelTimer()
    try {
      await group.restart(retry.clock.now() + Math.max(this.#leftMs(), 1))
    } catch (error) {
      this.#end('rolledBack')
      throw storeFailure(error, retry.file)
    }
    this.#arm()
    return true
  }

  /** Undoes the whole turn. Resolves when the data that it read is committed, or lost. */
  rollback(): Promise<void> {
    if (this.#ending === undefined) this.#abort('done')
    return this.#before ?? SETTLED
  }

  /** This attempt no longer holds the record. The transaction is rolled back, and every later call through it fails. */
  loseLease(): Error {
    if (this.#ending === undefined) this.#abort('leaseLost')
    return onceError('ONCE_LEASE_LOST')
  }

  #rolledBackPast(error: unknown): unknown {
    if (this.#ending !== undefined) return error
    this.#abort('taken')
    return onceError('ONCE_TX_TAKEN', { detail: ROLLED_BACK_PAST, cause: error })
  }

  #own<T>(work: (client: Client) => T): T {
    this.check()
    try {
      return this.#guarded(work)
    } catch (error) {
      throw storeFailure(error, this.#options.retry.file)
    }
  }

  /** After some errors, SQLite has rolled back by itself. Every further statement would then commit alone. */
  #guarded<T>(work: (client: Client) => T): T {
    try {
      return work(this.#options.client)
    } catch (error) {
      if (!this.#options.client.inTransaction()) {
        this.#options.group.lose(error)
        this.#end('rolledBack')
      }
      throw error
    }
  }

  #total(): number {
    return Number(this.#options.client.all(TOTAL)[0]?.['total'])
  }

  #abort(ending: Ending): void {
    this.#options.group.drop()
    this.#end(ending)
  }

  #end(ending: Ending): void {
    this.#ending = ending
    this.#cancelTimer()
    this.#options.leave(this.#options.retry.clock.now() - this.#since)
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
