import type { LetterState } from '../../store/dead-letters.ts'
import type { RedriveState } from '../../store/redrives.ts'
import type { Cancellation } from '../../store/cancellation.ts'
import type { HeldState } from '../../store/outbox.ts'
import type { RecordRow, StepRow } from '../../store/memory/database/rows.ts'
import type { FaultKind } from './fault.ts'
import type { ConsumerSettings, RelaySettings } from './outbox-plan.ts'
import type { Plan } from './plan.ts'

export type Mode = 'atomic' | 'leased' | 'batched' | 'joined'

/** What a caller got. `text` is the answer as JSON, byte for byte; `exec` the execution that made it. */
export type Result =
  | { readonly is: 'value' | 'refusal'; readonly exec: number; readonly text: string }
  | { readonly is: 'error'; readonly code: string; readonly message: string }

/** A committed effect: which execution made it, in which life of its key; null when the key has no record. */
export interface Effect {
  /** `own-…`: a row of a handler that has no key, or of a part of one that has. */
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

/** An event that became durable, by its own name: which execution of which key published it. */
export interface CommittedEvent {
  readonly event: string
  readonly key: string
  readonly exec: number
  readonly aggregate: string
  readonly shard: number
  readonly seq: number
  readonly delayed: boolean
}

/** What a statement said about itself: its name, whose record, and the token it came with. */
export interface Note {
  readonly op: string
  readonly key: string
  readonly token: string | null
}

/** Everything the checkers may look at. `t` is virtual time, `now` the database's, in milliseconds. */
export type TraceEvent = { readonly t: number; readonly now: number } & (
  | {
      readonly kind: 'policy'
      readonly expired: 'gone' | 'rerun'
      /** The longest a call may take: an attempt, a leased operation, a wait for another call. */
      readonly deadlineMs: number
      readonly endsWithinMs: number
      readonly waitMs: number
    }
  | {
      readonly kind: 'relay'
      readonly relay: RelaySettings
      readonly consumer: ConsumerSettings | null
      readonly readers: readonly string[]
      /** Somebody redrives what is parked, in the end all of it, with handlers that are mended. */
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
      /** The committed record when the call began. */
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
      /** The call of another handler that it runs for; null: a client's. */
      readonly inner: number | null
      readonly attempt: number
      /** Whether the claim or the lease was really won; lost again before the handler started; and by how many others. */
      readonly holds: boolean
      readonly lost: boolean
      readonly rivals: number
      readonly record: RecordRow | null
    }
  /** A handler calls another operation. */
  | {
      readonly kind: 'inner'
      readonly inner: number
      /** The execution of that handler. */
      readonly outer: number
      readonly key: string
      readonly process: string
      /** There is a transaction around it; null: there was one, and its operation was told to stop. */
      readonly inside: boolean | null
      readonly through: 'run' | 'join'
    }
  | {
      readonly kind: 'innerOutcome'
      readonly inner: number
      readonly key: string
      readonly result: Result
    }
  /** A batched request's statement was made, for the call of a handler. */
  | { readonly kind: 'stated'; readonly exec: number; readonly key: string; readonly inner: number }
  /** A handler was told that a row of its own is written. */
  | { readonly kind: 'wrote'; readonly exec: number; readonly part: string }
  /** A handler calls the outside world, and has its answer or its error. */
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
  /** A process has finished the abandoned operations it looked for: their executions have call 0. */
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
      /** In the order in which they are numbered. */
      readonly events: readonly CommittedEvent[]
      /** Events whose effects the consumer committed. */
      readonly applied: readonly string[]
      /** The committed tokens and states of the keys in `notes`, before this commit. */
      readonly held: readonly { readonly key: string; readonly token: number | null; readonly state: string | null }[]
    }
  /** The broker took an event. */
  | {
      readonly kind: 'accept'
      readonly event: string
      readonly aggregate: string
      readonly first: boolean
      readonly process: string
    }
  /** Somebody asked to cancel a delayed event, and was answered. */
  | { readonly kind: 'cancel'; readonly event: string; readonly answer: Cancellation }
  /** A cancellation was committed. */
  | { readonly kind: 'cancelled'; readonly event: string }
  /** An event of one service was sent or applied by another. */
  | { readonly kind: 'strayed'; readonly event: string; readonly how: 'sent' | 'applied'; readonly process: string }
  /** A service in another schema was refused, and only it uses its keys. */
  | { readonly kind: 'crossed'; readonly key: string; readonly code: string }
  /** A cursor became durable. */
  | { readonly kind: 'acked'; readonly shard: number; readonly cursor: number }
  /** An event was held, or is not any more: null. */
  | {
      readonly kind: 'held'
      readonly event: string
      readonly state: HeldState | null
      readonly attempts: number
      readonly reason: string | null
    }
  /** A consumer of the outbox is to be given an event once more. */
  | { readonly kind: 'resent'; readonly event: string }
  /** A dead letter was written or changed; null: it went. */
  | {
      readonly kind: 'letter'
      readonly event: string
      readonly from: LetterState | null
      readonly state: LetterState | null
      readonly reason: string | null
      readonly attempts: number
      /** Its effect is committed, by this commit or before. */
      readonly applied: boolean
    }
  /** A redrive changed its state. `audited`: with an entry in the audit, in the same commit. */
  | {
      readonly kind: 'redrive'
      readonly redrive: number
      readonly from: RedriveState | null
      readonly state: RedriveState
      readonly audited: boolean
      /** Letters nothing is known of yet. */
      readonly pending: number
    }
  | { readonly kind: 'audit'; readonly action: string; readonly by: string; readonly redrive: number | null }
  /** What a relay or a consumer told whoever observes. */
  | { readonly kind: 'told'; readonly signal: 'applied' | 'sent' | 'letters'; readonly count: number }
  /** A relay told whoever observes that it gave an event up. */
  | { readonly kind: 'parked'; readonly process: string; readonly event: string }
  | {
      readonly kind: 'provider'
      readonly key: string
      readonly life: number | null
      readonly step: string
      readonly exec: number
      readonly derived: string
      readonly keyed: boolean
      /** The provider did something; false when it knew the key. */
      readonly effect: boolean
    }
  | {
      readonly kind: 'verdict'
      readonly key: string
      readonly step: string
      readonly rerun: boolean
      readonly life: number | null
    }
  /** A claim that may be believed saw no record, where one was committed. */
  | { readonly kind: 'blind'; readonly key: string }
  | { readonly kind: 'wait'; readonly op: string; readonly behind: string; readonly interactive: boolean }
  | { readonly kind: 'pool'; readonly process: string; readonly used: number; readonly size: number }
  /** A promise was rejected and nobody was told: a real process would have ended here. */
  | { readonly kind: 'unhandled'; readonly message: string }
  | {
      readonly kind: 'end'
      readonly phase: 'until' | 'idle' | 'bound'
      readonly undecided: number
      readonly openTransactions: number
      readonly advisoryLocks: number
      readonly usedConnections: number
      /** Committed, and neither sent nor given up. */
      readonly pending: readonly string[]
      /** Sent, and neither applied nor set aside. */
      readonly unread: readonly string[]
      /** Dead letters nobody has settled. */
      readonly parked: readonly string[]
    }
)

export type EventOf<K extends TraceEvent['kind']> = Extract<TraceEvent, { kind: K }>

export function eventsOf<K extends TraceEvent['kind']>(trace: readonly TraceEvent[], kind: K): EventOf<K>[] {
  return trace.filter((event): event is EventOf<K> => event.kind === kind)
}
