import { describeError } from '../platform/describe-error.ts'
import { RELAY_BACKOFF_MS_MAX } from '../limits.ts'
import { readNotBefore } from '../store/not-before.ts'
import type { HoldParams, StoredEvent } from '../store/outbox.ts'
import { backoffMs } from './backoff.ts'
import type { RelayParts } from './relay-parts.ts'

export interface Failure {
  readonly error: unknown
  readonly retryable: boolean
}

/** Holds an event behind an earlier event of its aggregate. `parked`: the earlier event is parked, and so is this one. */
export function behind(stored: StoredEvent, parked: boolean): HoldParams {
  return { ...place(stored), state: parked ? 'parked' : 'waiting', attempts: 0, dueInMs: null, reason: null }
}

/** Holds an event as the first of its aggregate, due at once. */
export function dueNow(stored: StoredEvent): HoldParams {
  return { ...place(stored), state: 'waiting', attempts: 0, dueInMs: 0, reason: null }
}

/** Holds an event until its time has come by the database's clock. */
export function delayed(stored: StoredEvent, notBefore: string): HoldParams {
  return { ...place(stored), state: 'delayed', attempts: 0, dueInMs: null, notBefore, reason: null }
}

/** Holds an event after a failure. It is retried later, or given up after the last attempt. */
export function failed(
  parts: Pick<RelayParts, 'attempts' | 'onFailure' | 'random'>,
  stored: StoredEvent,
  { error, retryable }: Failure,
  attempts: number,
): HoldParams {
  const reason = describeError(error).line
  const over = !retryable || attempts >= parts.attempts
  if (over && parts.onFailure !== 'block') {
    const state = parts.onFailure === 'park' ? 'parked' : 'skipped'
    return { ...place(stored), state, attempts, dueInMs: null, reason }
  }
  const dueInMs = retryable ? backoffMs(parts.random, attempts) : RELAY_BACKOFF_MS_MAX
  return { ...place(stored), state: 'waiting', attempts, dueInMs, reason }
}

/** Undefined: there is no time, it cannot be read, or it is long past. */
export function notBeforeOf(headers: Readonly<Record<string, string>>): string | undefined {
  const text = headers['notbefore']
  return text === undefined ? undefined : readNotBefore(text)
}

function place(stored: StoredEvent): Pick<HoldParams, 'shard' | 'seq' | 'aggregateId' | 'notBefore'> {
  return { shard: stored.shard, seq: stored.seq, aggregateId: stored.aggregateId, notBefore: null }
}
