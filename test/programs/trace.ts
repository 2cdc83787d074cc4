import type { Lock, RowFault, Via } from './program.ts'

/** An error as the caller saw it. */
export type Told =
  | { readonly kind: 'once'; readonly code: string }
  /** A refusal, with the execution that made it. */
  | { readonly kind: 'final'; readonly by: number | null }
  /** Thrown by the program itself, with the execution that threw. */
  | { readonly kind: 'thrown'; readonly by: number }
  /** The database's own words. */
  | { readonly kind: 'sql'; readonly state: string }
  | { readonly kind: 'other'; readonly text: string }

/** What came of a call: the execution whose answer it is, or an error. */
export type Heard = { readonly value: number | null } | { readonly error: Told }

/** Who runs statements: a handler, `commit`, `step.tx`, a message's handler, or one statement of a batch. */
export type ExecutionKind = 'atomic' | 'leased' | 'commit' | 'step.tx' | 'message' | 'batched'

/** Entries name each other by their place in the trace. */
export type Entry =
  | {
      readonly is: 'call'
      readonly op: number
      readonly via: Via
      readonly input: number
      readonly how: 'run' | 'join'
      /** Asked after the program: without faults. */
      readonly calm: boolean
      /** Where it was called: inside a handler, directly in an own transaction, or neither. */
      readonly exec: number | null
      readonly own: number | null
    }
  | { readonly is: 'called'; readonly call: number; readonly heard: Heard }
  | {
      readonly is: 'exec'
      readonly kind: ExecutionKind
      readonly call: number | null
      /** Of `commit` and `step.tx`: the handler they belong to. */
      readonly of: number | null
      readonly message: { readonly drain: number; readonly consumer: number; readonly id: number } | null
    }
  | { readonly is: 'execed'; readonly exec: number; readonly heard: Heard }
  /** A leased handler called `commit`. */
  | { readonly is: 'commits'; readonly exec: number }
  /** What the library made of a `commit` or a `step.tx`. */
  | { readonly is: 'ended'; readonly exec: number; readonly heard: Heard }
  | {
      readonly is: 'write'
      readonly exec: number | null
      readonly own: number | null
      readonly fault: RowFault | null
      readonly lock: Lock
    }
  | { readonly is: 'written'; readonly write: number; readonly heard: Heard }
  | {
      readonly is: 'publish'
      readonly exec: number | null
      readonly own: number | null
      readonly fault: 'unserialisable' | null
    }
  | { readonly is: 'published'; readonly publish: number; readonly heard: Heard }
  | { readonly is: 'own' }
  | { readonly is: 'owned'; readonly own: number; readonly heard: Heard }
  | { readonly is: 'savepoint'; readonly exec: number | null; readonly own: number | null }
  /** Released, or rolled back to. */
  | { readonly is: 'savepointed'; readonly savepoint: number; readonly heard: Heard }
  | {
      readonly is: 'step'
      readonly exec: number
      readonly name: string
      readonly keyed: boolean
      readonly reconciles: boolean
    }
  | { readonly is: 'stepped'; readonly step: number; readonly heard: Heard }
  /** The provider was called under this key, and later did what it was asked for. */
  | { readonly is: 'outside'; readonly step: number; readonly key: string }
  | { readonly is: 'charged'; readonly outside: number }
  | { readonly is: 'reconciled'; readonly step: number; readonly verdict: 'done' | 'rerun' }
  /** A message was published as this event. */
  | { readonly is: 'sent'; readonly consumer: number; readonly id: number; readonly event: string }
  | { readonly is: 'drain'; readonly consumer: number }
  /** A message will not be delivered again. */
  | { readonly is: 'acked'; readonly consumer: number; readonly id: number }
  | { readonly is: 'drained'; readonly drain: number; readonly heard: Heard }
  /** A construct that calls nothing by itself was reached. */
  | { readonly is: 'reached'; readonly what: string; readonly exec: number | null }
  /** The process that wrote everything before this is dead. */
  | { readonly is: 'killed' }

/** What a program did and saw, in order. */
export class Trace {
  readonly entries: Entry[]
  readonly #told: (place: number, entry: Entry) => void

  constructor(entries: Entry[] = [], told: (place: number, entry: Entry) => void = () => {}) {
    this.entries = entries
    this.#told = told
  }

  add(entry: Entry): number {
    const place = this.entries.push(entry) - 1
    this.#told(place, entry)
    return place
  }
}
