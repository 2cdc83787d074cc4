/**
 * A program over the public API, as data: it can be generated from a seed, played against a store, shrunk, and printed as
 * TypeScript. Every call of an operation is a retry of every other, and of those of another operation with its key.
 */
export interface Program {
  readonly seed: number
  readonly operations: readonly Operation[]
  readonly consumers: readonly ConsumerPlan[]
  readonly main: readonly Statement[]
  /** The process is killed at this entry of its trace, so many turns of the event loop later; null: it lives. */
  readonly kill: Kill | null
}

export interface Kill {
  readonly at: number
  readonly lag: number
}

/** Whom a call asks: `shop`, its `twin` (another instance of the same namespace), or `bank` (another namespace). */
export type Via = 'shop' | 'twin' | 'bank'

export type Operation = AtomicOperation | LeasedOperation | BatchedOperation

interface Keyed {
  /** The operation whose key it has: itself, or an earlier one. */
  readonly key: number
}

export interface AtomicOperation extends Keyed {
  readonly mode: 'atomic'
  readonly waits: boolean
  readonly body: readonly Statement[]
  readonly answer: Answer
}

export interface LeasedOperation extends Keyed {
  readonly mode: 'leased'
  readonly body: readonly Statement[]
  /** null: the handler forgets to commit. */
  readonly commit: readonly Statement[] | null
  readonly answer: Answer
}

export interface BatchedOperation extends Keyed {
  readonly mode: 'batched'
  readonly fault: BatchedFault | null
  readonly publishes: boolean
  readonly lock: Lock
  readonly asks: Asks
}

/** What a batched request asks for itself. Requests that ask for different things cannot share a batch. */
export type Asks = keyof typeof ASKED

/** `hurried` gives up before whoever holds its lock does. */
export const ASKED = {
  nothing: {},
  hurried: { deadline: '1s' },
  patient: { deadline: '6s' },
  kept: { replayFor: '2d' },
} as const

/** A row of the program's own that is written too, and so locked until the end of the transaction. */
export type Lock = 0 | 1 | null

/** `unserialisable`: an answer that JSON cannot hold. */
export type Answer = 'plain' | 'unserialisable'

/** What is wrong with a row: how its statement, or the commit, fails. */
export type RowFault = 'raise' | 'unique' | 'check' | 'deferred' | 'orphan' | 'unserialisable'

export type BatchedFault = RowFault | 'throws' | 'refuses' | 'answer'

export interface ConsumerPlan {
  readonly via: Via
  readonly pipelined: boolean
  readonly attempts: number
  /** Each has an aggregate or none; the same number twice is delivered twice. */
  readonly messages: readonly Message[]
  /** `outbox`: the messages are events, which the program publishes before. */
  readonly from: 'queue' | 'outbox'
  readonly body: readonly Statement[]
  /** Present: a leased consumer, whose handler ends with this. */
  readonly commit: readonly Statement[] | null
}

export interface Message {
  readonly id: number
  readonly aggregate: string | null
}

export type Statement =
  | { readonly do: 'write'; readonly fault: RowFault | null; readonly lock: Lock }
  | { readonly do: 'publish'; readonly fault: 'unserialisable' | null }
  /** `join`: in the transaction at hand, by `join(tx).run`. */
  | {
      readonly do: 'call'
      readonly op: number
      readonly via: Via
      readonly how: 'run' | 'join'
      readonly input: number
    }
  | { readonly do: 'all' | 'allSettled' | 'race'; readonly of: readonly (readonly Statement[])[] }
  | { readonly do: 'try'; readonly body: readonly Statement[] }
  /** Nobody awaits it. It begins at once, some turns later, or when the operation at hand has ended. */
  | { readonly do: 'detach'; readonly when: 'now' | 'soon' | 'after'; readonly body: readonly Statement[] }
  /** Only the first `times` executions of the operation, or of the message, throw. */
  | { readonly do: 'throw' | 'refuse'; readonly times: number }
  | { readonly do: 'pause'; readonly turns: number }
  | { readonly do: 'hold'; readonly ms: number }
  /** The user's own transaction. */
  | { readonly do: 'own'; readonly body: readonly Statement[] }
  /** A savepoint of the user's own inside the transaction at hand: rolled back to when its body fails, or at its end. */
  | { readonly do: 'savepoint'; readonly body: readonly Statement[]; readonly undone: boolean }
  | StepStatement
  | { readonly do: 'step.tx'; readonly name: string; readonly body: readonly Statement[] }
  | { readonly do: 'drain'; readonly consumer: number }

export interface StepStatement {
  readonly do: 'step'
  readonly name: string
  readonly keyed: boolean
  /** An honest provider: it tells whether the call happened. */
  readonly reconciles: boolean
  /** The provider fails before it did anything, or after it; or its answer cannot be recorded. The first `times` attempts. */
  readonly fault: 'before' | 'after' | 'unserialisable' | null
  readonly times: number
  /** How long the provider takes. */
  readonly turns: number
}

/** `sqlite-shared`: no constraint is checked by the commit, so operations that wait share one. */
export type StoreName = 'pg' | 'sqlite' | 'sqlite-shared' | 'memory'

export function keyOf({ operations }: Pick<Program, 'operations'>, op: number): string {
  return `k${operations[op]?.key ?? op}`
}

export function namespaceOf(via: Via): string {
  return via === 'bank' ? 'bank' : 'shop'
}

/** The lists of statements directly inside a statement. */
export function bodiesOf(statement: Statement): readonly (readonly Statement[])[] {
  switch (statement.do) {
    case 'all':
    case 'allSettled':
    case 'race':
      return statement.of
    case 'try':
    case 'detach':
    case 'own':
    case 'savepoint':
    case 'step.tx':
      return [statement.body]
    default:
      return []
  }
}
