import { LOCK_GROWS_EVERY, LOCK_PARTS_MIN } from '../limits.ts'

/**
 * Advisory locks are entries of one table that the whole server shares. If the table is full, the next request for a
 * lock fails, for every client. So the parts of a store that take many locks share this budget, a small part of the
 * table. The budget is halved when the server reports a full table, and grows again slowly.
 */
export class LockBudget {
  /** Whether the server has no room for more locks. */
  readonly isCrowded: (error: unknown) => boolean
  readonly #read: () => Promise<number>
  #reading: Promise<void> | undefined
  /** The budget by the server's settings, reduced each time the table was full. */
  #max = Infinity
  #whole = Infinity
  #held = 0
  #holders = 0
  readonly #waiting: { readonly locks: number; readonly begin: () => void }[] = []
  /** Holders from before the last halving. Their reports of a full table bring no news. */
  #older = 0
  #ended = 0

  constructor(read: () => Promise<number>, isCrowded: (error: unknown) => boolean) {
    this.#read = read
    this.isCrowded = isCrowded
  }

  /** Asks the server once how large the part of this store is. */
  open(): Promise<void> {
    return (this.#reading ??= this.#read().then(
      (part) => {
        this.#max = this.#whole = Math.max(1, Math.floor(part))
      },
      (error: unknown) => {
        this.#reading = undefined
        throw error
      },
    ))
  }

  /**
   * The most locks that a transaction may take if it begins now. The budget is divided among the running and waiting
   * transactions, and into at least `parts` parts.
   */
  most(parts: number = LOCK_PARTS_MIN): number {
    return Math.max(1, Math.floor(this.#whole / Math.max(parts, this.#holders + this.#waiting.length + 1)))
  }

  /** Takes locks without waiting, because a caller waits for the answer. Less is left for the others. */
  hold(locks: number): void {
    this.#begin(locks)
  }

  /** Takes locks when there is room, in the order of the requests. Undefined: they are taken. */
  take(locks: number): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#fits(locks)) {
      this.#begin(locks)
      return undefined
    }
    return new Promise((begin) => void this.#waiting.push({ locks, begin }))
  }

  /** Returns the locks when the transaction ends, however it ends. */
  give(locks: number): void {
    this.#held -= locks
    this.#holders--
    if (this.#older > 0) this.#older--
    else if (this.#whole < this.#max && ++this.#ended % LOCK_GROWS_EVERY === 0) this.#whole++
    for (let next = this.#waiting[0]; next && this.#fits(next.locks); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#begin(next.locks)
      next.begin()
    }
  }

  /** A transaction met a full table. Returns the remaining budget. Null: this was reported before. */
  crowded(): number | null {
    if (this.#older > 0 || this.#whole === Infinity) return null
    this.#older = this.#holders
    this.#whole = Math.max(1, Math.floor(this.#whole / 2))
    return this.#whole
  }

  /** A transaction that wants more locks than the whole budget runs alone. */
  #fits(locks: number): boolean {
    return this.#held + locks <= this.#whole || this.#holders === 0
  }

  #begin(locks: number): void {
    this.#held += locks
    this.#holders++
  }
}
