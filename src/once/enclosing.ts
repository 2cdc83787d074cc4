import { createContext, type Context } from '../platform/context.ts'
import type { Publisher } from '../outbox/publisher.ts'
import type { Session } from '../store/store.ts'

/**
 * The operation a call is made inside of. A `run` inside a `run` joins the outer transaction under a savepoint; taking a
 * second connection there would let a full pool wait for itself.
 */
export interface Enclosing {
  readonly id: string
  readonly route: string
  /** null inside a leased handler: there is no transaction to join. */
  readonly session: Session<unknown> | null
  readonly tx: unknown
  readonly publisher: Publisher | null
  readonly outer: Enclosing | undefined
  /** Nested operations take turns: two savepoints of one transaction cannot overlap. */
  turn: Promise<void> | undefined
}

export type EnclosingContext = Context<Enclosing>

export function createEnclosingContext(): EnclosingContext {
  return createContext<Enclosing>()
}

/** True when the operation is its own ancestor. */
export function isInside(enclosing: Enclosing | undefined, id: string): boolean {
  for (let at = enclosing; at; at = at.outer) if (at.id === id) return true
  return false
}
