import type { Arrival } from './inbox/arrival.ts'
import type { PositionTracker } from './inbox/positions.ts'
import { milliseconds } from '../duration.ts'
import { CONSUMER_BACKOFF_MS, CONSUMER_BACKOFF_MS_MAX, CONSUMER_DOWN_MS_MAX, RELAY_STOP_MS_MAX } from '../limits.ts'
import type { StopOptions } from '../outbox/relay.ts'
import { sleep } from '../platform/clock.ts'
import type { Delivery } from '../source/source.ts'
import type { CompleteInboxParams, SomeInbox } from '../store/inbox.ts'
import type { Pausing } from './pausing.ts'
import type { ConsumerSettings } from './options.ts'
import type { BatchSize } from './size.ts'
import type { Core } from '../operation/core.ts'

/** What all parts of one consumer share. */
export interface ConsumerParts<Tx> {
  readonly core: Core<Tx>
  readonly inbox: SomeInbox<Tx>
  readonly settings: ConsumerSettings
  readonly pausing: Pausing
  /** It keeps its pace from run to run, because a function drains often. */
  readonly size: BatchSize
  /** null: the source has no positions. */
  readonly tracker: PositionTracker | null
}

/** The positions of the log if these messages were settled. Null if there is no log. */
export function positionsAfter<Tx>(
  { tracker, settings }: ConsumerParts<Tx>,
  deliveries: readonly Delivery[],
): CompleteInboxParams['positions'] {
  if (!tracker) return null
  const positions = tracker.after(deliveries)
  return positions.length === 0 ? null : { source: settings.from.name, positions }
}

export function deliveriesOf(arrivals: readonly Arrival[]): Delivery[] {
  return arrivals.flatMap((arrival) => arrival.deliveries)
}

/** Full jitter: a random time up to the bound, so that messages that failed together do not come back together. */
export function backoffMs<Tx>({ core }: ConsumerParts<Tx>, attempts: number): number {
  const bound = Math.min(CONSUMER_BACKOFF_MS_MAX, CONSUMER_BACKOFF_MS * 2 ** Math.min(attempts - 1, 20))
  return Math.max(1, Math.round(bound * core.random.next()))
}

/** The pause before the next read while the source is down. A long pause would outlast the outage. */
export function pauseWhileDownMs<Tx>(parts: ConsumerParts<Tx>, failures: number): number {
  return Math.min(CONSUMER_DOWN_MS_MAX, backoffMs(parts, failures))
}

/** How long a stop may take. Running work has a deadline, and never takes twice as long. */
export function stopMs(options: StopOptions | undefined, { deadlineMs }: ConsumerSettings): number {
  return milliseconds(options?.within, 2 * deadlineMs, { option: 'within', min: 0, max: RELAY_STOP_MS_MAX })
}

/** Waits for running work when its consumer stops, but not past the time limit. False: work still hangs. */
export async function endedInTime<Tx>(
  { core, settings }: ConsumerParts<Tx>,
  work: Promise<unknown> | undefined,
  withinMs: number = settings.deadlineMs,
): Promise<boolean> {
  const ended = new AbortController()
  const late = sleep(core.clock, withinMs, ended.signal).then(() => false)
  const inTime = await Promise.race([Promise.resolve(work).then(() => true), late])
  ended.abort()
  return inTime
}
