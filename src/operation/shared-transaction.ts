import type { Claim, EventRow, Session } from '../store/store.ts'
import { Turns } from './turns.ts'

/** An operation that was completed inside the transaction of another one. */
export interface Inside {
  readonly claim: Claim
  readonly token: string
  /** What it published, which whoever opened the transaction writes. */
  readonly events: readonly EventRow[]
}

/** What waits for the commit. */
interface Waiting {
  readonly action: () => void
  /** It holds only if this one was not undone. */
  readonly inside: Inside | undefined
  /** The entry says that it was completed. */
  readonly completes: boolean
}

/**
 * One open transaction and what several operations inside it share: the order of their savepoints, and what becomes true
 * only with the commit.
 */
export class SharedTransaction {
  readonly session: Session<unknown>
  /** The user's own transaction object, where `join` was given one; nobody here sees its commit. */
  readonly joined: unknown
  #turns: Turns | undefined
  #waiting: Waiting[] | undefined

  constructor(session: Session<unknown>, joined?: { readonly tx: unknown; readonly turns: Turns }) {
    this.session = session
    this.joined = joined?.tx
    this.#turns = joined?.turns
  }

  /** Savepoints cannot overlap: whatever opens one directly in this transaction takes its turn here. */
  get turns(): Turns {
    return (this.#turns ??= new Turns())
  }

  /** The same without turns that nobody took. */
  get isTurnTaken(): boolean {
    return this.#turns?.taken ?? false
  }

  /**
   * What must not be known to anybody before the commit: memories, wake-ups. `id`: of the record that it rests on. If
   * this store did not complete that record, another store may have written it in this transaction. Then nothing is
   * remembered, and a retry reads the record again.
   */
  afterCommit(action: () => void, id?: string): void {
    const own =
      id === undefined ? undefined : this.#waiting?.findLast((at) => at.completes && at.inside?.claim.id === id)
    if (id !== undefined && !own) return
    ;(this.#waiting ??= []).push({ action, inside: own?.inside, completes: false })
  }

  /** An operation was completed inside, under a savepoint that is released. */
  completed(inside: Inside, action: () => void): void {
    ;(this.#waiting ??= []).push({ action, inside, completes: true })
  }

  /** How much waits for the commit: what comes later goes with the savepoint that opens now. */
  get waiting(): number {
    return this.#waiting?.length ?? 0
  }

  /** A savepoint was rolled back. Operations take turns, so everything since it opened belonged to it. */
  forget(since: number): void {
    this.#waiting?.splice(since)
  }

  /**
   * What of these events is still true, right before they are written. A savepoint of the user's is rolled back without
   * a word to us, and takes the records of the operations inside it along: so the records are asked.
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
    // Nobody completes an operation twice, unless the first time was undone; its token may be the same then.
    const last = this.#waiting?.findLast((at) => at.completes && at.inside?.claim.id === claim.id)
    return last?.inside === inside && (await this.session.reread(claim))?.token === token
  }

  /** Whoever committed the transaction says so. */
  committed(): void {
    for (const { action } of this.#waiting?.splice(0) ?? []) action()
  }
}
