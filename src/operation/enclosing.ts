import { invariant } from '../invariant.ts'
import { onceError } from '../errors.ts'
import type { Publisher } from '../outbox/publisher.ts'
import { createContext, type Context } from '../platform/context.ts'
import type { Session, TakeTurn } from '../store/store.ts'
import type { SharedTransaction } from './shared-transaction.ts'
import { Turns } from './turns.ts'

interface EnclosingOf {
  /** Empty: no operation, but the user's own transaction that operations join. */
  readonly id: string
  readonly route: string
  readonly outer: Enclosing | undefined
  /** null inside a leased handler: there is no transaction to join. */
  readonly transaction: SharedTransaction | null
  readonly publisher: Publisher | null
  /** Absent: the operation opened the transaction itself. */
  readonly turns?: Turns | undefined
  /** The operation of another store that this one stands for. */
  readonly standsFor?: Enclosing
}

/** The same operation, as another store sees it that shares the transaction. */
export interface Alias {
  readonly enclosing: Enclosing
  readonly context: EnclosingContext
}

const NONE: readonly Alias[] = []

/**
 * The operation a call is made inside of. A `run` inside a `run` joins the outer transaction under a savepoint; taking a
 * second connection there would let a full pool wait for itself. The operation commits and releases nothing before its
 * children have ended, and once it has ended it encloses nothing any more.
 */
export class Enclosing {
  readonly id: string
  readonly route: string
  readonly outer: Enclosing | undefined
  readonly transaction: SharedTransaction | null
  readonly publisher: Publisher | null
  /** The handler's own handle on the transaction. */
  tx: unknown
  /** Where the operations of the same store are found; unset without a handle. */
  context: EnclosingContext | undefined
  /** Empty where one store alone works in the transaction. */
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

  /** It was ended from outside, by its deadline or a close, and its handler still goes on. */
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

  /** One of its children has the turn. */
  get isTurnTaken(): boolean {
    return this.#turns?.taken ?? this.transaction?.isTurnTaken ?? false
  }

  get ended(): boolean {
    return this.#ended
  }

  get isUsers(): boolean {
    return this.id === ''
  }

  /** For calls that come too late. */
  checkOpen(): void {
    if (this.#ended) throw this.closed()
  }

  closed(): unknown {
    return this.#reason ?? onceError('ONCE_TX_CLOSED', { detail: 'The operation has ended. Await every call' })
  }

  get pending(): number {
    return this.#pending
  }

  /** What has to be taken back when the operation ends, whoever ends it. */
  onEnd(close: () => void): void {
    this.#close = close
  }

  /** How the work is told that somebody else ended the operation. */
  onStop(stop: () => void): void {
    this.#stop = stop
  }

  /** A child: the operation does not end before it. */
  track<T>(child: Promise<T>): Promise<T> {
    void this.#standsFor?.track(child)
    this.#pending++
    const done = (): void => {
      if (--this.#pending === 0) this.#wake()
    }
    child.then(done, done)
    return child
  }

  /** A child that opens a savepoint, in its turn. */
  inTurn<T>(work: () => PromiseLike<T>): Promise<T> {
    const { turns } = this
    invariant(turns, 'an operation without a transaction has no turns')
    const { aliases } = this
    return this.track(turns.run(aliases.length > 0 ? () => holdingTurn(aliases, work) : work))
  }

  /** Calls back when no child is under way, or when the operation has ended and waits for none. */
  whenIdle(callback: () => void): void {
    if (this.#pending === 0 || this.#ended) callback()
    else (this.#idle ??= []).push(callback)
  }

  #wake(): void {
    for (const callback of this.#idle?.splice(0) ?? []) callback()
  }

  /** An operation inside this one is taken back with it. */
  enter(inner: Enclosing): void {
    ;(this.#inside ??= new Set()).add(inner)
  }

  leave(inner: Enclosing): void {
    this.#inside?.delete(inner)
  }

  /** Takes its handles back, and those of whatever still runs inside. Its children must have ended, or lose their turn. */
  end(reason?: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#reason = reason
    this.#close?.()
    this.#stop?.()
    this.#wake()
    // The turns of the user's own transaction are the user's: what is joined later takes them again.
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
 * Lets the other stores of the transaction see an operation of this one, so that what all of them run inside it takes
 * turns and ends with it. Answers with what they see.
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

/** Runs `work` where each of these stores finds its alias. */
export function inContextsOf<T>(aliases: readonly Alias[], work: () => T): T {
  const [alias, ...others] = aliases
  return alias ? alias.context.run(alias.enclosing, () => inContextsOf(others, work)) : work()
}

/** A statement may go through the handle of another store: it counts as one of the operation that has the turn. */
async function holdingTurn<T>(aliases: readonly Alias[], work: () => PromiseLike<T>): Promise<T> {
  const holders = aliases.map((around) => inside(around, { id: '', turns: new Turns() }))
  try {
    return await inContextsOf(holders, work)
  } finally {
    for (const { enclosing } of holders) enclosing.end()
  }
}

/**
 * The innermost operation around this call that has not ended. The user's own transaction is none: work that outlives
 * what was joined to it cannot count on it, because nobody here sees its end.
 */
export function openEnclosing(context: EnclosingContext): Enclosing | undefined {
  let at = context.get()
  while (at && (at.ended || at.isUsers)) at = at.outer
  return at
}

/**
 * The same for a call that begins something. The caller of an operation that was cut off was told that nothing was
 * committed: its handler begins nothing any more, on its own or in the transaction around it.
 */
export function enclosingOf(context: EnclosingContext): Enclosing | undefined {
  let at = context.get()
  for (; at && (at.ended || at.isUsers); at = at.outer) if (at.isCut) throw at.closed()
  return at
}

/** True when the operation is its own ancestor. */
export function isInside(enclosing: Enclosing | undefined, id: string): boolean {
  for (let at = enclosing; at; at = at.outer) if (!at.ended && at.id === id) return true
  return false
}

/**
 * For the handles of an operation: a statement beside a child that has a savepoint open would be rolled back with the
 * child, so it takes a turn like one. A statement of the child itself, made through the outer handle, does not wait.
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
