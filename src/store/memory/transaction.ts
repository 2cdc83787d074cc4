import { deadlockDetected, idleTooLong, LineBroken, transactionFailed } from './failure.ts'
import type { MemoryDatabase } from './database.ts'
import type { SentEventRow } from './rows.ts'
import type { Slot } from './table.ts'

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

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

/**
 * One transaction: what it wrote and which locks it took, as a stack, so that a savepoint is a height of that stack.
 * Nothing it wrote is seen by anybody else before `commit`.
 */
export class Transaction {
  readonly number: number
  readonly database: MemoryDatabase
  readonly isolation: Isolation
  /** Open across trips: whoever waits for it waits for a client, not for a statement. */
  readonly interactive: boolean
  state: 'open' | 'failed' | 'committed' | 'rolledBack' | 'killed' = 'open'
  waitingFor: Transaction | null = null
  /** Rows written outside our own tables. */
  written = 0
  /** What the statement under way wants to be known as; for whoever observes commits. */
  readonly notes: unknown[] = []
  private readonly entries: Entry[] = []
  private readonly wakers: (() => void)[] = []
  private ownWaker: (() => void) | null = null
  private killedBy: Error | null = null

  constructor(database: MemoryDatabase, number: number, isolation: Isolation, interactive: boolean) {
    this.database = database
    this.number = number
    this.isolation = isolation
    this.interactive = interactive
  }

  get ended(): boolean {
    return this.state !== 'open' && this.state !== 'failed'
  }

  /** Throws what the server would say to one more statement. */
  check(): void {
    if (this.state === 'open') return
    if (this.state === 'failed') throw transactionFailed()
    throw this.killedBy ?? new LineBroken()
  }

  fail(): void {
    if (this.state === 'open') this.state = 'failed'
  }

  /** The caller holds the row, or nobody does. */
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

  tryAdvisory(lock: string): boolean {
    const holder = this.database.advisory.get(lock)
    if (holder === this) return true
    if (holder !== undefined) return false
    this.database.advisory.set(lock, this)
    this.entries.push({ kind: 'advisory', lock })
    return true
  }

  /** Waits for whoever holds the lock, as `pg_advisory_xact_lock` does. */
  async advisory(lock: string): Promise<void> {
    while (!this.tryAdvisory(lock)) await this.waitFor(this.database.advisory.get(lock) as Transaction, lock)
  }

  /** A new event: nobody could have written the same one, so there is nothing to lock. */
  appendEvent(row: SentEventRow): void {
    this.entries.push({ kind: 'event', row })
  }

  /** The last event of an aggregate that this transaction wrote itself. */
  lastEvent(likes: (row: SentEventRow) => boolean): SentEventRow | undefined {
    for (const entry of this.entries.toReversed()) if (entry.kind === 'event' && likes(entry.row)) return entry.row
    return undefined
  }

  /** The height to come back to. */
  mark(): number {
    return this.entries.length
  }

  rollbackTo(mark: number): void {
    while (this.entries.length > mark) this.undo(this.entries.pop())
    if (this.state === 'failed') this.state = 'open'
    this.wakeOthers()
  }

  /** True when committed; a failed transaction rolls back instead, silently, as COMMIT does. */
  commit(): boolean {
    this.checkOpen()
    if (this.state === 'failed') {
      this.rollback()
      return false
    }
    const changes = this.changes()
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
    this.undoAll()
  }

  /** The server ends it: at its deadline, or because its client is gone. */
  kill(why: Error = idleTooLong()): void {
    if (this.ended) return
    this.killedBy = why
    this.end('killed')
    this.undoAll()
    this.ownWaker?.()
  }

  /** Waits until the other one ends, or gives something back; the one who closes a circle is the victim. */
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

  private undoAll(): void {
    while (this.entries.length > 0) this.undo(this.entries.pop())
    this.wakeOthers()
  }

  private undo(entry: Entry | undefined): void {
    if (entry === undefined) return
    if (entry.kind === 'advisory') this.database.advisory.delete(entry.lock)
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
      if (entry.kind === 'advisory') this.database.advisory.delete(entry.lock)
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
