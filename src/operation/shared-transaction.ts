import type { Claim, EventRow, Session } from '../store/store.ts'
import { Turns } from './turns.ts'

/** An operation that was completed inside the transaction of another one. */
export interface Inside {
  readonly claim: Claim
  readonly token: string
  /** The events that it published. The operation that opened the transaction writes them. */
  readonly events: readonly EventRow[]
}

/** Work that waits for the commit. */
interface Waiting {
  readonly action: () => void
  /** The work is done only if this operation was not rolled back. */
  readonly inside: Inside | undefined
  /** This entry records that the operation was completed. */
  readonly completes: boolean
}

/**
 * One open transaction, and what the operations inside it share: the order of their savepoints, and the work that waits
 * for the commit.
 */
export class SharedTransaction {
  readonly session: Session<unknown>
  /** The user's own transaction object, if `join` got one. The library does not see its commit. */
  readonly joined: unknown
  #turns: Turns | undefined
  #waiting: Waiting[] | undefined

  constructor(session: Session<unknown>, joined?: { readonly tx: unknown; readonly turns: Turns }) {
    this.session = session
    this.joined = joined?.tx
    this.#turns = joined?.turns
  }

  /** Savepoints cannot overlap, so every operation that opens one directly in this transaction takes a turn here. */
  get turns(): Turns {
    return (this.#turns ??= new Turns())
  }

  /** Whether a turn is taken. Unlike `turns`, this does not create the queue. */
  get isTurnTaken(): boolean {
    return this.#turns?.taken ?? false
  }

  /**
   * Defers work until the commit, such as cache entries and wake-ups. `id` is the id of the record that the work
   * depends on. If this store did not complete that record, another store may have written it in this transaction. Then
   * nothing is remembered, and a retry reads the record again.
   */
  afterCommit(action: () => void, id?: string): void {
    const own =
      id === undefined ? undefined : this.#waiting?.findLast((at) => at.completes && at.inside?.claim.id === id)
    if (id !== undefined && !own) return
    ;(this.#waiting ??= []).push({ action, inside: own?.inside, completes: false })
  }

  /** An inner operation was completed, and its savepoint released. */
  completed(inside: Inside, action: () => void): void {
    ;(this.#waiting ??= []).push({ action, inside, completes: true })
  }

  /** How much work waits for the commit. Later work is undone with the savepoint that opens now. */
  get waiting(): number {
    return this.#waiting?.length ?? 0
  }

  /** A savepoint was rolled back. Operations take turns, so all work since it opened belonged to it. */
  forget(since: number): void {
    this.#waiting?.splice(since)
  }

  /**
   * Returns the events that are still valid, right before they are written. The library does not notice when the user
   * rolls back a savepoint, which also removes the records of the operations inside it. So it checks the records.
   */
  standing(events: readonly EventRow[]): readonly EventRow[] | Promise<readonly EventRow[]> {
    const waiting = this.#waiting?.filter(({ inside, completes }) => inside && (!completes || inside.events.length > 0))
    return waiting?.length ? this.#ask(new Set(waiting.map(({ inside }) => inside as Inside)), events) : events
  }

  async #ask(doubtful: ReadonlySet<Inside>, events: readonly EventRow[]): Promise<readonly EventRow[]> {
    const undone = new Set<Inside>()
    for (const inside of doubtful) if (!(await this.#stands(inside))) undone.add(inside)
    if (undone.size === 0) return events
    this.#waiting = this.#waiting?.filter(({ inside }) => !inside || !undone.has(inside))
    const rows = new Set([...undone].flatMap((inside) => inside.events))
    return events.filter((row) => !rows.has(row))
  }

  async #stands(inside: Inside): Promise<boolean> {
    const { claim, token } = inside
    // An operation is completed twice only if the first time was rolled back. The token may then be the same.
    const last = this.#waiting?.findLast((at) => at.completes && at.inside?.claim.id === claim.id)
    return last?.inside === inside && (await this.session.reread(claim))?.token === token
  }

  /** Called after the transaction was committed. */
  committed(): void {
    for (const { action } of this.#waiting?.splice(0) ?? []) action()
  }
}
