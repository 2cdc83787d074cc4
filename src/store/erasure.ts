/**
 * Removes the data of one scope and of named aggregates. Each call is one short transaction on a bounded part of a
 * table, and nothing of a call is remembered. So an erasure that was cut off is run again from the start.
 */
export interface Erasure {
  /**
   * Removes answers, steps, sealed inputs and labels of completed operations. The records stay as tombstones: see
   * `isErased` in lifecycle/record.ts. Shared caches must forget all `ids` before the erasure reports them.
   */
  operations(params: EraseOperationsParams): Promise<ErasedOperations>
  /**
   * Removes the data of events that every destination has passed. The rows stay, because segments count their events,
   * and consumers of ordered events wait for ids. An event that was not sent to every destination stays as it is.
   */
  events(params: EraseEventsParams): Promise<ErasedEvents>
  /** Removes the content of dead letters, and settles the parked ones as discarded. */
  letters(params: EraseLettersParams): Promise<ErasedLetters>
  /**
   * The transactions that may have written a record which nobody else sees yet. Absent: `operations` waits for them by
   * itself.
   */
  writers?(): Promise<readonly string[]>
}

interface ErasePart {
  /** At most about this many rows are read, and not more are changed. */
  readonly limit: number
  /** Counts, and changes nothing. */
  readonly dryRun: boolean
}

export interface EraseOperationsParams extends ErasePart {
  /** The hash of the scope. */
  readonly scope: string
  /** Only this operation. Null: all of the scope */
  readonly id: string | null
  /** `next` of the call before. Null: the first call */
  readonly after: string | null
}

export interface ErasedOperations {
  /** How many operations lost their data in this call. */
  readonly erased: number
  /** These operations and those that were erased before. */
  readonly ids: readonly string[]
  /** Operations whose records another transaction holds. They stay as they are. */
  readonly busy: readonly string[]
  /** Null: there is no more. */
  readonly next: string | null
}

export interface Aggregate {
  readonly type: string
  readonly id: string
}

export interface EraseEventsParams extends ErasePart {
  readonly shard: number
  /** Aggregates of this shard. */
  readonly aggregates: readonly Aggregate[]
  /** `next` of the call before. 0: the first call */
  readonly after: number
}

export interface ErasedEvents {
  readonly erased: number
  /** Events that stay, because they were not sent to every destination. */
  readonly pending: readonly PendingEvent[]
  readonly next: number | null
}

export interface PendingEvent {
  readonly id: string
  readonly type: string
  readonly aggregate: string
  /** 'unsent': a relay has not reached the event. Otherwise how a relay holds the event. */
  readonly state: 'unsent' | 'waiting' | 'delayed' | 'parked'
}

export interface EraseLettersParams extends ErasePart {
  /** The number of the namespace that the consumers belong to. */
  readonly namespace: number
  /** Letters of this tenant. Null: of no tenant */
  readonly tenant: string | null
  /** Letters of these aggregates. */
  readonly aggregates: readonly Aggregate[]
  readonly after: number
}

export interface ErasedLetters {
  readonly erased: number
  /** How many of them were parked or skipped. Their messages are never applied. */
  readonly discarded: number
  /** Letters that stay, because a redrive that has not ended runs them. Null: another transaction holds the letter. */
  readonly redriving: readonly { readonly id: string; readonly redrive: number | null }[]
  readonly next: number | null
}

/** The type of an aggregate is the first part of the types of its events. */
export function aggregateTypeOf(eventType: string): string {
  return eventType.split('.', 1)[0] as string
}

/** What is left of an event's headers. `previous` is the id of the predecessor of an ordered event. */
export function erasedHeaders(headers: string | null): string {
  const { previous } = JSON.parse(headers ?? '{}') as { readonly previous?: unknown }
  return JSON.stringify({ erased: true, ...(previous === undefined ? {} : { previous }) })
}

/** Whether the data of an event was erased. No relay or consumer gets such an event. Publishers write only texts. */
export function isErasedEvent({ headers }: { readonly headers: string | null }): boolean {
  if (headers === null || !headers.includes('"erased"')) return false
  try {
    return (JSON.parse(headers) as { readonly erased?: unknown } | null)?.erased === true
  } catch {
    return false
  }
}
