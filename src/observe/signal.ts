import type { OnceCode } from '../errors.ts'

/**
 * All signals, as one tagged union, for metrics, logs and traces. `id` is the first eight hex digits of the hashed
 * identity. No signal holds a key, a scope or a body.
 */
export type Signal =
  /** A handler ran and its effect committed. */
  | {
      readonly kind: 'completed'
      readonly id: string
      readonly route: string
      readonly durationMs: number
      readonly attempt: number
    }
  /** A final refusal was stored. Its effect was rolled back. */
  | { readonly kind: 'refused'; readonly id: string; readonly route: string; readonly status: number }
  /** A handler failed. Nothing was committed, and the key is free. */
  | { readonly kind: 'released'; readonly id: string; readonly route: string }
  /** A caller got the stored answer, and nothing ran. */
  | {
      readonly kind: 'replayed'
      readonly id: string
      readonly route: string
      readonly from: 'memory' | 'cache' | 'database' | 'attached'
    }
  /** The caller got an error of this library instead of an answer. */
  | { readonly kind: 'rejected'; readonly id: string; readonly route: string; readonly code: OnceCode }
  /** A lapsed lease was taken over. */
  | { readonly kind: 'takenOver'; readonly id: string; readonly route: string; readonly attempt: number }
  /** A holder found that it had lost its lease. */
  | { readonly kind: 'fenced'; readonly id: string; readonly route: string }
  /** An operation runs again after a serialization failure or a deadlock. */
  | { readonly kind: 'rerun'; readonly id: string; readonly route: string; readonly attempt: number }
  | { readonly kind: 'batch'; readonly size: number; readonly won: number; readonly failed: number }
  | {
      readonly kind: 'swept'
      readonly records: number
      readonly events: number
      readonly suspended: number
      readonly partitionsDropped: number
      readonly partitionsBusy: number
      /** true: another process was sweeping, so this process removed nothing. */
      readonly skipped: boolean
    }
  /** Old inbox rows became marks, and old marks were removed. */
  | {
      readonly kind: 'sweptInbox'
      readonly marked: number
      readonly rows: number
      readonly marks: number
      readonly letters: number
    }
  /** A sink acknowledged events. */
  | { readonly kind: 'sent'; readonly destination: string; readonly events: number }
  /** A call of a sink ended. `failed`: the whole call failed. `system` is the kind of broker, where it is known. */
  | {
      readonly kind: 'sinkCalled'
      readonly destination: string
      readonly system: string | undefined
      readonly events: number
      readonly durationMs: number
      readonly failed: boolean
    }
  /** An event was parked after its last attempt. `shard` and `seq` say where it is in the outbox. */
  | {
      readonly kind: 'parked'
      readonly destination: string
      readonly shard: number
      readonly seq: number
      readonly reason: string
    }
  /**
   * Alarm: a segment's acknowledged and stored event counts differ. The segment is kept until an operator has looked.
   */
  | {
      readonly kind: 'miscounted'
      readonly destination: string
      readonly segment: number
      readonly shard: number
      readonly stored: number
      readonly acknowledged: number
    }
  /** A consumer finished messages: they were applied now, were applied before, or were ignored. */
  | { readonly kind: 'consumed'; readonly consumer: string; readonly messages: number; readonly applied: number }
  /** A message's handler ended. The commit comes later. */
  | {
      readonly kind: 'handled'
      readonly consumer: string
      readonly system: string | undefined
      readonly type: string
      readonly durationMs: number
      readonly failed: boolean
    }
  /** A message failed and is tried again. */
  | {
      readonly kind: 'failed'
      readonly consumer: string
      readonly type: string
      readonly attempts: number
      readonly fingerprint: string
      readonly error: unknown
    }
  /** At its start, a consumer reports the catalogue's types that it has no handler for, and what becomes of them. */
  | {
      readonly kind: 'unhandled'
      readonly consumer: string
      readonly types: readonly string[]
      readonly fate: 'parked' | 'ignored'
    }
  /** A message became a dead letter. */
  | {
      readonly kind: 'deadLetter'
      readonly consumer: string
      readonly type: string
      readonly reason: string
      readonly fingerprint: string
    }
  /** A relay or a consumer was paused or resumed. `name` is the relay's destination or the consumer's name. */
  | { readonly kind: 'paused' | 'resumed'; readonly task: 'relay' | 'consumer'; readonly name: string }
  /** A redrive of this process stopped: it is done, paused or aborted. `reason` says why. */
  | {
      readonly kind: 'redrive'
      readonly consumer: string
      readonly redrive: number
      readonly state: string
      readonly reason: string | null
    }
  /** The server's lock table was full. From now on this process holds at most `locks` locks at a time. */
  | { readonly kind: 'lockTableFull'; readonly task: 'batch' | 'consumer' | 'redrive'; readonly locks: number }
  /** Messages went back to the broker, because they were busy, too early, or due for a later retry. */
  | { readonly kind: 'returned'; readonly consumer: string; readonly messages: number }
  /** Background work failed, and will be tried again. */
  | {
      readonly kind: 'troubled'
      readonly task: 'sweep' | 'heartbeat' | 'recover' | 'undo' | 'batch' | 'relay' | 'consumer' | 'redrive' | 'cache'
      readonly error: unknown
    }
  /**
   * A setting of the broker or of the consumer weakens a promise, such as `num_replicas is 1`. Nothing failed. Each
   * advice is reported once. `message` begins with the name of the relay's destination or of the consumer.
   */
  | { readonly kind: 'advice'; readonly task: 'relay' | 'consumer'; readonly message: string }
  /** The instance was closed. */
  | { readonly kind: 'closed'; readonly cutOff: readonly CutOff[] }
  /** The development guard found a mistake. */
  | { readonly kind: 'guard'; readonly route: string; readonly code: OnceCode; readonly message: string }

/** Work that `close` cut off. */
export interface CutOff {
  readonly kind: 'operation' | 'consumer' | 'relay' | 'sweep' | 'server'
  /**
   * The route of an operation, the name of a consumer or the name of a relay's sink. Empty for a sweep and a server.
   */
  readonly name: string
  readonly count: number
}

export type Observe = (signal: Signal) => void

const advised = new WeakMap<Observe, Set<string>>()

/** Reports an advice once for each instance, however often a relay or consumer starts. */
export function advise(observe: Observe, task: 'relay' | 'consumer', message: string): void {
  const known = advised.get(observe) ?? new Set()
  if (known.has(message)) return
  advised.set(observe, known.add(message))
  observe({ kind: 'advice', task, message })
}

/** The part of an identity that a signal may show. */
export function shortId(id: string): string {
  return id.slice(0, 8)
}
