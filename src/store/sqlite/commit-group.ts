import { onceError } from '../../errors.ts'
import type { Client } from './client.ts'
import { isBusy, isConstraint, storeFailure } from './failure.ts'
import { type BusyRetry, pause, whileBusy } from './busy-retry.ts'

const SAVEPOINT = 'effectively_once_turn'
/** Constraints that only the commit checks, and constraints that end the whole transaction. */
const FOUND_LATE = `select 1 from (select sql from sqlite_schema union all select sql from sqlite_temp_schema)
  where sql like '%deferr%' or sql like '%rollback%' limit 1`

/** A turn whose work is done and kept, but not yet committed. */
interface Kept {
  readonly until: number
  readonly resolve: (ending: 'committed') => void
  readonly reject: (error: unknown) => void
}

/**
 * One transaction of SQLite that the waiting turns share. Each turn has a savepoint, and all of them share one commit
 * and one fsync. No turn reports success before the commit.
 */
export class CommitGroup {
  readonly #client: Client
  readonly #retry: BusyRetry
  #kept: Kept[] = []
  #settled: Promise<void> = Promise.resolve()
  #settle: () => void = () => {}
  #since = 0
  #version: unknown
  #foundLate = false
  /** A failure of one turn has undone the work of others. That may happen again. */
  #costOthers = false
  /** A rollback has failed. */
  #unfinished = false

  constructor(client: Client, retry: BusyRetry) {
    this.#client = client
    this.#retry = retry
  }

  /** How many turns wait for the commit. */
  get size(): number {
    return this.#kept.length
  }

  get ageMs(): number {
    return this.#retry.clock.now() - this.#since
  }

  /** Resolves when the turns kept so far are committed, or lost. */
  get settled(): Promise<void> {
    return this.#settled
  }

  /** False if a failure of one turn could end the transaction of all turns: the tables show it, or it has happened. */
  get shareable(): boolean {
    if (this.#costOthers) return false
    try {
      const version = this.#client.all('pragma schema_version')[0]?.['schema_version']
      if (version !== this.#version) this.#foundLate = this.#client.all(FOUND_LATE).length > 0
      this.#version = version
      return !this.#foundLate
    } catch {
      // The commit will fail for the same reason, and report it.
      return false
    }
  }

  /** Begins a turn. The first turn opens the transaction, and waits for other processes at most until `until`. */
  async enter(until: number): Promise<void> {
    if (this.size === 0) {
      if (this.#unfinished) this.#client.run('rollback')
      this.#unfinished = false
      await whileBusy(this.#retry, until, () => this.#client.run('begin immediate'))
      this.#since = this.#retry.clock.now()
    }
    try {
      this.#client.run(`savepoint ${SAVEPOINT}`)
    } catch (error) {
      if (this.size === 0) this.#rollback()
      throw error
    }
  }

  /** Keeps the turn's work for the commit. Throws if the turn's savepoint is gone. */
  keep(until: number): Promise<'committed'> {
    this.#client.run(`release ${SAVEPOINT}`)
    if (this.size === 0) this.#settled = new Promise((resolve) => (this.#settle = resolve))
    return new Promise((resolve, reject) => {
      this.#kept.push({ until, resolve, reject })
    })
  }

  /** Undoes only this turn's work. */
  drop(): void {
    if (this.size === 0) return this.#rollback()
    try {
      this.#client.run(`rollback to ${SAVEPOINT}`)
      this.#client.run(`release ${SAVEPOINT}`)
    } catch (error) {
      // It is no longer known which rows belong to which turn.
      this.#rollback()
      this.lose(error)
    }
  }

  /** Undoes the turn's work, commits the kept turns, and begins the turn again. */
  async restart(until: number): Promise<void> {
    this.drop()
    if (this.size > 0) await this.commit()
    await this.enter(until)
  }

  /** SQLite rolled back by itself. The kept turns did nothing wrong, so they run again. */
  lose(error: unknown): void {
    if (this.size > 0) this.#costOthers = true
    this.#end(({ reject }) => reject(onceError('ONCE_CONFLICT', { cause: error })))
  }

  /** Commits the kept turns, and resolves their promises. */
  async commit(): Promise<void> {
    for (;;) {
      try {
        this.#client.run('commit')
        return this.#end(({ resolve }) => resolve('committed'))
      } catch (error) {
        if (!this.#client.inTransaction())
          return this.#end(({ reject }) => reject(onceError('ONCE_COMMIT_UNKNOWN', { cause: error })))
        if (!isBusy(error)) return this.#refused(error)
        if (this.#retry.clock.now() >= Math.max(...this.#kept.map(({ until }) => until))) {
          this.#rollback()
          return this.#end(({ reject }) => reject(onceError('ONCE_DEADLINE')))
        }
      }
      await pause(this.#retry)
    }
  }

  /**
   * The transaction is still open, so nothing was committed. If a deferred constraint refused several turns, each of
   * them runs alone, so that the right one gets the error.
   */
  #refused(error: unknown): void {
    const deferred = isConstraint(error)
    this.#rollback()
    if (deferred && this.size > 1) this.lose(error)
    else this.#end(({ reject }) => reject(deferred ? error : storeFailure(error, this.#retry.file)))
  }

  #rollback(): void {
    try {
      this.#client.run('rollback')
    } catch {
      this.#unfinished = this.#client.inTransaction()
    }
  }

  #end(tell: (kept: Kept) => void): void {
    for (const kept of this.#kept.splice(0)) tell(kept)
    this.#settle()
  }
}
