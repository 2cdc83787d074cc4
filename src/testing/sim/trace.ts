import type { LetterState } from '../../store/dead-letters.ts'
import type { RedriveState } from '../../store/redrives.ts'
import type { Cancellation } from '../../store/cancellation.ts'
import type { HeldState } from '../../store/outbox.ts'
import type { RecordRow, StepRow } from '../../store/memory/database/rows.ts'
import type { CacheTrouble } from './cache.ts'
import type { FaultKind } from './fault.ts'
import type { ConsumerSettings, RelaySettings } from './outbox-plan.ts'
import type { Plan } from './plan.ts'

export type Mode = 'atomic' | 'leased' | 'batched' | 'joined'

/** The result that a caller got. `text` is the answer as JSON, byte for byte. `exec` is the execution that made it. */
export type Result =
  | { readonly is: 'value' | 'refusal'; readonly exec: number; readonly text: string }
  | { readonly is: 'error'; readonly code: string; readonly message: string }

/** A committed effect, with its execution and the life of its key. The life is null when the key has no record. */
export interface Effect {
  /** `own-…` is a row of a handler without a key, or of a part of a handler with one. */
  readonly key: string
  readonly exec: number
  readonly part: string
  readonly life: number | null
}

export interface RecordChange {
  readonly key: string
  readonly before: RecordRow | null
  readonly after: RecordRow | null
}

/** An event that became durable, by its name, with the execution and the key that published it. */
export interface CommittedEvent {
  readonly event: string
  readonly key: string
  readonly exec: number
  readonly aggregate: string
  readonly shard: number
  readonly seq: number
  readonly delayed: boolean
  /** No relay sends events of this type. */
  readonly unwanted: boolean
}

/** A statement's note about itself: its name, its record, and the token it was called with. */
export interface Note {
  readonly op: string
  readonly key: string
  readonly token: string | null
}

/** Everything that checkers can read. `t` is virtual time and `now` is the database's time, both in milliseconds. */
export type TraceEvent = { readonly t: number; readonly now: number } & (
  | {
      readonly kind: 'policy'
      readonly expired: 'gone' | 'rerun'
      /**
       * The longest times that a call may take: for an attempt, for a leased operation, and for a wait for another
       * call.
       */
      readonly deadlineMs: number
      readonly endsWithinMs: number
      readonly waitMs: number
    }
  | {
      readonly kind: 'relay'
      readonly relay: RelaySettings
      readonly consumer: ConsumerSettings | null
      readonly readers: readonly string[]
      /** An operator redrives parked letters, and in the end all of them, with fixed handlers. */
      readonly redrives: boolean
    }
  | { readonly kind: 'plan'; readonly plan: Plan }
  | { readonly kind: 'fault'; readonly fault: FaultKind; readonly at: string }
  | { readonly kind: 'process'; readonly process: string; readonly what: 'born' | 'died' | 'paused' | 'resumed' }
  | {
      readonly kind: 'call'
      readonly call: number
      readonly client: number
      readonly key: string
      readonly input: number
      readonly mode: Mode
      readonly process: string
      /** The committed record at the start of the call. */
      readonly record: RecordRow | null
    }
  | {
      readonly kind: 'outcome'
      readonly call: number
      readonly key: string
      readonly input: number
      readonly result: Result
      readonly record: RecordRow | null
    }
  | {
      readonly kind: 'run'
      readonly exec: number
      readonly process: string
      readonly call: number
      readonly key: string
      readonly mode: Mode
      /** The number of the call by another handler, or null for a client's call. */
      readonly inner: number | null
      readonly attempt: number
      /**
       * Whether the claim or the lease was really won, whether it was lost before the handler started, and how many
       * other processes hold it.
       */
      readonly holds: boolean
      readonly lost: boolean
      readonly rivals: number
      readonly record: RecordRow | null
    }
  /** A handler calls another operation. */
  | {
      readonly kind: 'inner'
      readonly inner: number
      /** The execution of the calling handler. */
      readonly outer: number
      readonly key: string
      readonly process: string
      /** Whether a transaction surrounds the call. null: there was one, but its operation was aborted. */
      readonly inside: boolean | null
      readonly through: 'run' | 'join'
    }
  | {
      readonly kind: 'innerOutcome'
      readonly inner: number
      readonly key: string
      readonly result: Result
    }
  /** The statement of a batched request was executed for the call of a handler. */
  | { readonly kind: 'stated'; readonly exec: number; readonly key: string; readonly inner: number }
  /** A handler learned that a row of its own was written. */
  | { readonly kind: 'wrote'; readonly exec: number; readonly part: string }
  /** A handler calls the outside world, or has received the answer or the error. */
  | {
      readonly kind: 'calling' | 'called'
      readonly exec: number
      readonly key: string
      readonly step: string
      readonly keyed: boolean
      readonly token: number | null
    }
  /** A process looks for abandoned operations. */
  | { readonly kind: 'recovering'; readonly process: string }
  /** A process has completed the abandoned operations that it found. Their executions have call 0. */
  | { readonly kind: 'recovered'; readonly process: string }
  | { readonly kind: 'ran'; readonly exec: number; readonly how: 'returned' | 'threw' | 'refused' }
  | {
      readonly kind: 'commit'
      readonly records: readonly RecordChange[]
      readonly effects: readonly Effect[]
      readonly steps: readonly {
        readonly key: string
        readonly before: StepRow | null
        readonly after: StepRow | null
      }[]
      readonly answers: readonly { readonly key: string; readonly token: number; readonly text: string | null }[]
      readonly notes: readonly Note[]
      /** In the order of their sequence numbers. */
      readonly events: readonly CommittedEvent[]
      /** The events whose effects the consumer committed. */
      readonly applied: readonly string[]
      /** The committed tokens and states of the keys in `notes`, before this commit. */
      readonly held: readonly { readonly key: string; readonly token: number | null; readonly state: string | null }[]
    }
  /** The broker accepted an event. */
  | {
      readonly kind: 'accept'
      readonly event: string
      readonly aggregate: string
      readonly first: boolean
      readonly process: string
    }
  /** A relay passed events to its sink. `at` is the clock of its process. */
  | {
      readonly kind: 'handed'
      readonly process: string
      readonly at: number
      readonly events: readonly string[]
    }
  /** The relay of this process was paused or resumed. */
  | { readonly kind: 'pausing'; readonly process: string; readonly paused: boolean }
  /** The relay of this process was stopped, or started again. */
  | { readonly kind: 'stopping'; readonly process: string; readonly stopped: boolean }
  /** A request to cancel a delayed event was answered. */
  | { readonly kind: 'cancel'; readonly event: string; readonly answer: Cancellation }
  /** An erasure of operations ended in this process. */
  | { readonly kind: 'erased'; readonly process: string }
  /** A cancellation was committed. */
  | { readonly kind: 'cancelled'; readonly event: string }
  /** One service sent or applied an event of another service. */
  | { readonly kind: 'strayed'; readonly event: string; readonly how: 'sent' | 'applied'; readonly process: string }
  /** The service in the other schema was refused, although no other service uses its keys. */
  | { readonly kind: 'crossed'; readonly key: string; readonly code: string }
  /** A cursor became durable. */
  | { readonly kind: 'acked'; readonly shard: number; readonly cursor: number }
  /** An event was held, or is no longer held (null). */
  | {
      readonly kind: 'held'
      readonly event: string
      readonly state: HeldState | null
      readonly attempts: number
      readonly reason: string | null
    }
  /** A resend holds an event for an outbox consumer. */
  | { readonly kind: 'resent'; readonly event: string }
  /** A dead letter was written, changed or deleted (null). */
  | {
      readonly kind: 'letter'
      readonly event: string
      readonly from: LetterState | null
      readonly state: LetterState | null
      readonly reason: string | null
      readonly attempts: number
      /** The effect is committed, by this commit or an earlier one. */
      readonly applied: boolean
    }
  /** A redrive changed its state. `audited`: the same commit wrote an audit entry. */
  | {
      readonly kind: 'redrive'
      readonly redrive: number
      readonly from: RedriveState | null
      readonly state: RedriveState
      readonly audited: boolean
      /** The number of letters without an outcome so far. */
      readonly pending: number
    }
  | { readonly kind: 'audit'; readonly action: string; readonly by: string; readonly redrive: number | null }
  /** A relay or a consumer sent a signal to the observer. */
  | { readonly kind: 'told'; readonly signal: 'applied' | 'sent' | 'letters'; readonly count: number }
  /** A relay told the observer that it parked an event. */
  | { readonly kind: 'parked'; readonly process: string; readonly event: string }
  | {
      readonly kind: 'provider'
      readonly key: string
      readonly life: number | null
      readonly step: string
      readonly exec: number
      readonly derived: string
      readonly keyed: boolean
      /** Whether the provider made a charge. False when it knew the key. */
      readonly effect: boolean
    }
  /** The provider undid a charge. `effect` is false when it knew the key. */
  | {
      readonly kind: 'undone'
      readonly key: string
      readonly life: number
      readonly step: string
      readonly derived: string
      readonly effect: boolean
    }
  | {
      readonly kind: 'verdict'
      readonly key: string
      readonly step: string
      readonly rerun: boolean
      readonly life: number | null
    }
  /** Something happened to the cache, or the cache was used. */
  | { readonly kind: 'cache'; readonly what: CacheTrouble | 'found' | 'filled' }
  /** The answer of this life was erased, and every cache has confirmed it. */
  | { readonly kind: 'answerErased'; readonly key: string; readonly life: number }
  /** A claim that counts as up to date saw no record, although one was committed. */
  | { readonly kind: 'blind'; readonly key: string }
  | { readonly kind: 'wait'; readonly op: string; readonly behind: string; readonly interactive: boolean }
  | { readonly kind: 'pool'; readonly process: string; readonly used: number; readonly size: number }
  /** A promise was rejected without a handler. A real process would have ended here. */
  | { readonly kind: 'unhandled'; readonly message: string }
  | {
      readonly kind: 'end'
      readonly phase: 'until' | 'idle' | 'bound'
      readonly undecided: number
      readonly openTransactions: number
      readonly advisoryLocks: number
      readonly usedConnections: number
      /** Committed events that were neither sent nor parked. */
      readonly pending: readonly string[]
      /** Sent events that were neither applied nor parked. */
      readonly unread: readonly string[]
      /** Dead letters that are not settled. */
      readonly parked: readonly string[]
    }
)

export type EventOf<K extends TraceEvent['kind']> = Extract<TraceEvent, { kind: K }>

export function eventsOf<K extends TraceEvent['kind']>(trace: readonly TraceEvent[], kind: K): EventOf<K>[] {
  return trace.filter((event): event is EventOf<K> => event.kind === kind)
}
