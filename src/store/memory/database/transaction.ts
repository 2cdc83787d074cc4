import { deadlockDetected, idleTooLong, LineBroken, noSuchSavepoint, transactionFailed } from './failure.ts'
import type { Row } from '../../store.ts'
import type { SentEventRow } from './rows.ts'

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

/** One key of a table: its committed row, and the uncommitted row of the transaction that is changing it. */
export interface Slot<R extends object> {
  readonly table: { readonly name: string; tidy(slot: Slot<R>): void }
  readonly key: string
  committed: R | undefined
  pending: R | undefined
  holder: Transaction | null
  /** Created by the first share lock, because most rows are never share-locked. */
  sharers: Set<Transaction> | null
}

type Entry =
  | {
      readonly kind: 'write'
      readonly slot: Slot<object>
      readonly pending: object | undefined
      readonly fresh: boolean
    }
  | { readonly kind: 'advisory'; readonly lock: string }
  | { readonly kind: 'event'; readonly row: SentEventRow }
  | { readonly kind: 'share'; readonly slot: Slot<object> }

export interface Change {
  readonly table: string
  readonly key: string
  readonly before: object | undefined
  readonly after: object | undefined
}

/** The parts of the server that a transaction uses. */
export interface TransactionServer {
  readonly advisory: Map<string, Transaction>
  readonly deferred: Readonly<Record<string, (row: Row) => void>>
  readonly events: { add(row: SentEventRow): void }
  readonly observer: { waited?(tx: Transaction, other: Transaction, what: string): void } | null
  lockName(lock: string): string
  unlock(lock: string, tx: Transaction): void
  committed(tx: Transaction, changes: readonly Change[]): void
  ended(tx: Transaction): void
}

/**
 * One transaction. It keeps its writes and locks on a stack, so that a savepoint is a name and a height of that stack.
 * No other transaction sees the writes before `commit`.
 */
export class Transaction {
  readonly number: number
  readonly database: TransactionServer
  readonly isolation: Isolation
  /**
   * The transaction stays open across round trips: a transaction that waits for it waits for a client, not for one
   * statement.
   */
  readonly interactive: boolean
  state: 'open' | 'failed' | 'committed' | 'rolledBack' | 'killed' = 'open'
  waitingFor: Transaction | null = null
  /** The number of rows written outside the library's own tables. */
  written = 0
  /** Notes of the current statement, for the observer of commits. */
  readonly notes: unknown[] = []
  private readonly entries: Entry[] = []
  private readonly savepoints: { readonly name: string; readonly height: number }[] = []
  private readonly wakers: (() => void)[] = []
  private ownWaker: (() => void) | null = null
  private killedBy: Error | null = null

  constructor(database: TransactionServer, number: number, isolation: Isolation, interactive: boolean) {
    this.database = database
    this.number = number
    this.isolation = isolation
    this.interactive = interactive
  }

  get ended(): boolean {
    return this.state !== 'open' && this.state !== 'failed'
  }

  /** Throws the error that the server would return for one more statement. */
  check(): void {
    if (this.state === 'open') return
    if (this.state === 'failed') throw transactionFailed()
    throw this.killedBy ?? new LineBroken()
  }

  /** Undoes the writes and locks since the last savepoint at once. ROLLBACK only ends the rest. */
  fail(): void {
    if (this.state !== 'open') return
    this.state = 'failed'
    this.undoTo(this.savepoints.at(-1)?.height ?? 0)
  }

  /** The caller holds the lock of the row, or no transaction does. */
  write(slot: Slot<object>, row: object | undefined): void {
    this.entries.push({ kind: 'write', slot, pending: slot.pending, fresh: slot.holder !== this })
    slot.holder = this
    slot.pending = row
  }

  share(slot: Slot<object>): void {
    if (slot.holder === this || slot.sharers?.has(this)) return
    slot.sharers = (slot.sharers ?? new Set()).add(this)
    this.entries.push({ kind: 'share', slot })
  }

  tryAdvisory(of: string): boolean {
    const lock = this.database.lockName(of)
    const holder = this.database.advisory.get(lock)
    if (holder === this) return true
    if (holder !== undefined) return false
    this.database.advisory.set(lock, this)
    this.entries.push({ kind: 'advisory', lock })
    return true
  }

  /** Waits until the lock is free, as `pg_advisory_xact_lock` does. */
  async advisory(of: string): Promise<void> {
    const lock = this.database.lockName(of)
    while (!this.tryAdvisory(of)) await this.waitFor(this.database.advisory.get(lock) as Transaction, lock)
  }

  /** Needs no lock, because no other transaction can write the same new event. */
  appendEvent(row: SentEventRow): void {
    this.entries.push({ kind: 'event', row })
  }

  /** The last event of this transaction that matches. */
  lastEvent(likes: (row: SentEventRow) => boolean): SentEventRow | undefined {
    for (const entry of this.entries.toReversed()) if (entry.kind === 'event' && likes(entry.row)) return entry.row
    return undefined
  }

  /** Two savepoints may have the same name. The younger one hides the older one. */
  savepoint(name: string): void {
    this.savepoints.push({ name, height: this.entries.length })
  }

  /** Removes the savepoint and every later one. The changes since then stay. */
  release(name: string): void {
    this.savepoints.length = this.savepointAt(name).index
  }

  /**
   * Undoes the changes since the savepoint and removes the later ones. A failed transaction accepts only this
   * statement.
   */
  rollbackTo(name: string): void {
    const { index, height } = this.savepointAt(name)
    this.savepoints.length = index + 1
    this.undoTo(height)
    if (this.state === 'failed') this.state = 'open'
  }

  /** Returns true when the transaction committed. A failed transaction rolls back without an error, as COMMIT does. */
  commit(): boolean {
    this.checkOpen()
    if (this.state === 'failed') {
      this.rollback()
      return false
    }
    const changes = this.changes()
    this.runDeferred(changes)
    this.end('committed')
    for (const entry of this.entries) {
      if (entry.kind === 'write') settle(entry.slot)
      else if (entry.kind === 'event') this.database.events.add(entry.row)
    }
    this.releaseLocks()
    this.database.committed(this, changes)
    this.wakeOthers()
    return true
  }

  rollback(): void {
    if (this.ended) return
    this.end('rolledBack')
    this.undoTo(0)
  }

  /** Ends the transaction on the server's side, at its deadline or because its client is gone. */
  kill(why: Error = idleTooLong()): void {
    if (this.ended) return
    this.killedBy = why
    this.end('killed')
    this.undoTo(0)
    this.ownWaker?.()
  }

  /**
   * Waits until the other transaction ends or releases a lock. The transaction whose wait closes a cycle is the
   * deadlock victim.
   */
  async waitFor(other: Transaction, what: string): Promise<void> {
    for (let next: Transaction | null = other; next !== null; next = next.waitingFor) {
      if (next === this) throw deadlockDetected()
    }
    this.waitingFor = other
    this.database.observer?.waited?.(this, other, what)
    await new Promise<void>((resolve) => {
      other.wakers.push(resolve)
      this.ownWaker = resolve
    })
    this.waitingFor = null
    this.ownWaker = null
    this.check()
  }

  /** A statement that does not end by itself, such as a very long `pg_sleep`. */
  async hang(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.ownWaker = resolve
    })
    this.ownWaker = null
    this.check()
  }

  private checkOpen(): void {
    if (this.ended) this.check()
  }

  private changes(): Change[] {
    const changes: Change[] = []
    const seen = new Set<Slot<object>>()
    for (const entry of this.entries) {
      if (entry.kind === 'event')
        changes.push({ table: 'event', key: String(entry.row.seq), before: undefined, after: entry.row })
      if (entry.kind !== 'write' || seen.has(entry.slot)) continue
      seen.add(entry.slot)
      const { table, key, committed, pending } = entry.slot
      if (committed !== pending) changes.push({ table: table.name, key, before: committed, after: pending })
    }
    return changes
  }

  private end(state: 'committed' | 'rolledBack' | 'killed'): void {
    this.state = state
    this.database.ended(this)
  }

  private savepointAt(name: string): { readonly index: number; readonly height: number } {
    const index = this.savepoints.findLastIndex((savepoint) => savepoint.name === name)
    const found = this.savepoints[index]
    if (found === undefined) throw noSuchSavepoint(name)
    return { index, height: found.height }
  }

  /** Runs the constraints that COMMIT checks. An error of one constraint rolls back the whole transaction. */
  private runDeferred(changes: readonly Change[]): void {
    const { deferred } = this.database
    try {
      for (const { table, after } of changes) if (after !== undefined) deferred[table]?.(after as Row)
    } catch (error) {
      this.rollback()
      throw error
    }
  }

  private undoTo(height: number): void {
    while (this.entries.length > height) this.undo(this.entries.pop())
    this.wakeOthers()
  }

  private undo(entry: Entry | undefined): void {
    if (entry === undefined) return
    if (entry.kind === 'advisory') this.database.unlock(entry.lock, this)
    else if (entry.kind === 'share') entry.slot.sharers?.delete(this)
    else if (entry.kind === 'write') {
      entry.slot.pending = entry.pending
      if (!entry.fresh) return
      entry.slot.holder = null
      entry.slot.table.tidy(entry.slot)
    }
  }

  private releaseLocks(): void {
    for (const entry of this.entries) {
      if (entry.kind === 'advisory') this.database.unlock(entry.lock, this)
      else if (entry.kind === 'share') entry.slot.sharers?.delete(this)
    }
    this.entries.length = 0
  }

  private wakeOthers(): void {
    for (const wake of this.wakers.splice(0)) wake()
  }
}

function settle(slot: Slot<object>): void {
  if (slot.holder === null) return
  slot.committed = slot.pending
  slot.pending = undefined
  slot.holder = null
  slot.table.tidy(slot)
}
