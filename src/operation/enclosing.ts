import { invariant } from '../invariant.ts'
import { onceError } from '../errors.ts'
import type { Publisher } from '../outbox/publisher.ts'
import { createContext, type Context } from '../platform/context.ts'
import type { Session, TakeTurn } from '../store/store.ts'
import type { SharedTransaction } from './shared-transaction.ts'
import { Turns } from './turns.ts'

interface EnclosingOf {
  /** Empty for the user's own transaction, which operations join. */
  readonly id: string
  readonly route: string
  readonly outer: Enclosing | undefined
  /** null inside a leased handler: there is no transaction to join. */
  readonly transaction: SharedTransaction | null
  readonly publisher: Publisher | null
  /** Absent if the operation opened the transaction itself. */
  readonly turns?: Turns | undefined
  /** The operation of another store that this one represents. */
  readonly standsFor?: Enclosing
}

/** The same operation, as seen by another store that shares the transaction. */
export interface Alias {
  readonly enclosing: Enclosing
  readonly context: EnclosingContext
}

const NONE: readonly Alias[] = []

/**
 * The operation that encloses a call. A `run` inside a `run` joins the outer transaction under a savepoint: with a
 * second connection, a full pool could wait for itself. The operation commits and releases nothing before its children
 * have ended. After its end it encloses no more calls.
 */
export class Enclosing {
  readonly id: string
  readonly route: string
  readonly outer: Enclosing | undefined
  readonly transaction: SharedTransaction | null
  readonly publisher: Publisher | null
  /** The handler's own handle on the transaction. */
  tx: unknown
  /** The context in which operations of the same store are found. Unset without a handle. */
  context: EnclosingContext | undefined
  /** Empty if only one store works in the transaction. */
  aliases: readonly Alias[] = NONE
  readonly #standsFor: Enclosing | undefined
  readonly #turns: Turns | undefined
  #isCut = false
  #pending = 0
  #idle: (() => void)[] | undefined
  #inside: Set<Enclosing> | undefined
  #close: (() => void) | undefined
  #stop: (() => void) | undefined
  #ended = false
  #reason: unknown

  constructor(of: EnclosingOf) {
    this.id = of.id
    this.route = of.route
    this.outer = of.outer
    this.transaction = of.transaction
    this.publisher = of.publisher
    this.#turns = of.turns
    this.#standsFor = of.standsFor
  }

  /** Its deadline or `close` ended the operation, but its handler is still running. */
  get isCut(): boolean {
    return this.#standsFor?.isCut ?? this.#isCut
  }

  set isCut(isCut: boolean) {
    this.#isCut = isCut
  }

  get session(): Session<unknown> | null {
    return this.transaction?.session ?? null
  }

  /** Its children take turns: two savepoints cannot overlap. */
  get turns(): Turns | undefined {
    return this.#turns ?? this.transaction?.turns
  }

  /** True if one of its children has the turn. */
  get isTurnTaken(): boolean {
    return this.#turns?.taken ?? this.transaction?.isTurnTaken ?? false
  }

  get ended(): boolean {
    return this.#ended
  }

  get isUsers(): boolean {
    return this.id === ''
  }

  /** The error for calls that come too late. */
  checkOpen(): void {
    if (this.#ended) throw this.closed()
  }

  closed(): unknown {
    return this.#reason ?? onceError('ONCE_TX_CLOSED', { detail: 'The operation has ended. Await every call' })
  }

  get pending(): number {
    return this.#pending
  }

  /** Registers a handle that is revoked when the operation ends, for whatever reason. */
  onEnd(close: () => void): void {
    this.#close = close
  }

  /** Registers how the work learns that the operation was ended from outside. */
  onStop(stop: () => void): void {
    this.#stop = stop
  }

  /** Runs a child. The operation does not end before its children. */
  track<T>(child: Promise<T>): Promise<T> {
    void this.#standsFor?.track(child)
    this.#pending++
    const done = (): void => {
      if (--this.#pending === 0) this.#wake()
    }
    child.then(done, done)
    return child
  }

  /** Runs a child that opens a savepoint, when it has the turn. */
  inTurn<T>(work: () => PromiseLike<T>): Promise<T> {
    const { turns } = this
    invariant(turns, 'an operation without a transaction has no turns')
    const { aliases } = this
    return this.track(turns.run(aliases.length > 0 ? () => holdingTurn(aliases, work) : work))
  }

  /** Calls back when no child is running, or when the operation has ended and no longer waits. */
  whenIdle(callback: () => void): void {
    if (this.#pending === 0 || this.#ended) callback()
    else (this.#idle ??= []).push(callback)
  }

  #wake(): void {
    for (const callback of this.#idle?.splice(0) ?? []) callback()
  }

  /** An inner operation ends with this one. */
  enter(inner: Enclosing): void {
    ;(this.#inside ??= new Set()).add(inner)
  }

  leave(inner: Enclosing): void {
    this.#inside?.delete(inner)
  }

  /**
   * Revokes its handles, and those of everything that still runs inside. Children that have not ended lose their turn.
   */
  end(reason?: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#reason = reason
    this.#close?.()
    this.#stop?.()
    this.#wake()
    // The turns belong to the user's transaction, so operations that join later still use them.
    const turns = this.transaction?.joined === undefined ? this.turns : this.#turns
    if (this.#pending > 0) turns?.close(this.closed())
    for (const inner of this.#inside ?? []) inner.end(reason)
  }
}

export type EnclosingContext = Context<Enclosing>

export function createEnclosingContext(): EnclosingContext {
  return createContext<Enclosing>()
}

/**
 * Shows an operation of this store to the other stores of the transaction. So the inner operations of all stores take
 * turns, and end with it. Returns the aliases that the other stores see.
 */
export function makeAliases(host: Enclosing, enclosing: Enclosing, context: EnclosingContext): readonly Alias[] {
  const { id, route, turns } = enclosing
  const seen = host.aliases.map((around) => inside(around, { id, route, turns, standsFor: enclosing }))
  const all = [{ enclosing, context }, ...seen]
  for (const alias of all) alias.enclosing.aliases = all.filter((other) => other !== alias)
  for (const alias of seen) enclosing.enter(alias.enclosing)
  return seen
}

/** An operation in the same transaction, of the same store. */
export function inside(
  { enclosing: outer, context }: Alias,
  of: Partial<EnclosingOf> & { readonly id: string },
): Alias {
  const { route, transaction, publisher } = outer
  return { enclosing: new Enclosing({ route, transaction, publisher, outer, ...of }), context }
}

/** Runs `work` in a context in which each of these stores finds its alias. */
export function inContextsOf<T>(aliases: readonly Alias[], work: () => T): T {
  const [alias, ...others] = aliases
  return alias ? alias.context.run(alias.enclosing, () => inContextsOf(others, work)) : work()
}

/** A statement may go through the handle of another store. It then belongs to the operation that has the turn. */
async function holdingTurn<T>(aliases: readonly Alias[], work: () => PromiseLike<T>): Promise<T> {
  const holders = aliases.map((around) => inside(around, { id: '', turns: new Turns() }))
  try {
    return await inContextsOf(holders, work)
  } finally {
    for (const { enclosing } of holders) enclosing.end()
  }
}

/**
 * Returns the innermost enclosing operation that has not ended. The user's own transaction does not count: the library
 * does not see its end, so later work must not rely on it.
 */
export function openEnclosing(context: EnclosingContext): Enclosing | undefined {
  let at = context.get()
  while (at && (at.ended || at.isUsers)) at = at.outer
  return at
}

/**
 * The same for a call that starts something. If an operation was cut off, its caller was told that nothing was
 * committed. So its handler must not start anything more, neither alone nor in the outer transaction.
 */
export function enclosingOf(context: EnclosingContext): Enclosing | undefined {
  let at = context.get()
  for (; at && (at.ended || at.isUsers); at = at.outer) if (at.isCut) throw at.closed()
  return at
}

/** True if the operation is its own ancestor. */
export function isInside(enclosing: Enclosing | undefined, id: string): boolean {
  for (let at = enclosing; at; at = at.outer) if (!at.ended && at.id === id) return true
  return false
}

/**
 * For the handles of an operation. A statement that runs while a child has a savepoint open would be rolled back with
 * the child, so the statement takes a turn like a child. If the child itself uses the outer handle, its statement does
 * not wait.
 */
export function turnsOf(context: EnclosingContext, owner: Enclosing): TakeTurn {
  return (statement) => {
    if (!owner.isTurnTaken) return undefined
    let at = context.get()
    while (at && (at.ended || at.transaction !== owner.transaction)) at = at.outer
    const caller = at ?? owner
    return caller.turns?.taken ? caller.inTurn(statement) : undefined
  }
}
