import type { Slot, Transaction } from './transaction.ts'

/**
 * A table by primary key, with READ COMMITTED isolation. A statement sees the rows that are committed when it reads,
 * and the rows that its own transaction wrote.
 */
export class Table<R extends object> {
  readonly name: string
  readonly slots: Map<string, Slot<R>> = new Map()

  constructor(name: string) {
    this.name = name
  }

  seen(key: string, by: Transaction | null): R | undefined {
    const slot = this.slots.get(key)
    if (slot === undefined) return undefined
    return slot.holder !== null && slot.holder === by ? slot.pending : slot.committed
  }

  /** Every row that this transaction sees, in the order of first insertion. */
  rows(by: Transaction | null): [key: string, row: R][] {
    const rows: [string, R][] = []
    for (const slot of this.slots.values()) {
      const row = slot.holder !== null && slot.holder === by ? slot.pending : slot.committed
      if (row !== undefined) rows.push([slot.key, row])
    }
    return rows
  }

  /** `insert … on conflict do nothing`: waits for a transaction that is inserting or deleting the same key. */
  async insert(key: string, row: R, by: Transaction): Promise<boolean> {
    for (;;) {
      const slot = this.slotOf(key)
      if (slot.holder === null || slot.holder === by) {
        if (this.seen(key, by) !== undefined) return false
        by.write(slot, row)
        return true
      }
      await by.waitFor(slot.holder, `${this.name} ${key}`)
    }
  }

  /**
   * Locks the row if the statement sees it and the condition holds, and returns its newest version. After a wait the
   * condition is evaluated again. A row that is not seen, or that does not match, causes no wait.
   */
  async lock(
    key: string,
    by: Transaction,
    mode: 'share' | 'update',
    likes: (row: R) => boolean = () => true,
  ): Promise<R | undefined> {
    for (;;) {
      const row = this.seen(key, by)
      const slot = this.slots.get(key)
      if (row === undefined || slot === undefined || !likes(row)) return undefined
      const blocker = blockerOf(slot, by, mode)
      if (blocker === null) return this.take(slot, row, by, mode)
      await by.waitFor(blocker, `${this.name} ${key}`)
    }
  }

  /** Whether `lock` would have to wait. Used for `skip locked`. */
  locked(key: string, by: Transaction, mode: 'share' | 'update'): boolean {
    const slot = this.slots.get(key)
    return slot !== undefined && blockerOf(slot, by, mode) !== null
  }

  /** The caller must have locked the row for update in the same statement. */
  put(key: string, row: R | undefined, by: Transaction): void {
    by.write(this.slotOf(key), row)
  }

  slotOf(key: string): Slot<R> {
    const known = this.slots.get(key)
    if (known !== undefined) return known
    const slot: Slot<R> = {
      table: this,
      key,
      committed: undefined,
      pending: undefined,
      holder: null,
      sharers: null,
    }
    this.slots.set(key, slot)
    return slot
  }

  tidy(slot: Slot<R>): void {
    if (slot.committed === undefined && slot.holder === null) this.slots.delete(slot.key)
  }

  /** Reading and locking are one step, so no other transaction can run between them. */
  private take(slot: Slot<R>, row: R, by: Transaction, mode: 'share' | 'update'): R {
    if (mode === 'share') by.share(slot)
    else if (slot.holder !== by) by.write(slot, row)
    return row
  }
}

function blockerOf<R extends object>(slot: Slot<R>, by: Transaction, mode: 'share' | 'update'): Transaction | null {
  if (slot.holder !== null && slot.holder !== by) return slot.holder
  if (mode === 'share') return null
  if (slot.sharers === null) return null
  for (const sharer of slot.sharers) if (sharer !== by) return sharer
  return null
}
