import {
  CONSUMER_BATCH_MS,
  CONSUMER_BYTES_MAX,
  CONSUMER_PREFETCH_MAX,
  CONSUMER_PREFETCH_MIN,
  CONSUMER_RATE_SECONDS,
} from '../limits.ts'
import type { Delivery } from '../source/source.ts'
import type { LockBudget } from '../store/lock-budget.ts'
import type { ConsumerSettings } from './options.ts'

/** The most messages that a consumer holds. */
export function prefetchOf({ concurrency, batch, leaseMs, rate }: ConsumerSettings): number {
  const wanted = leaseMs === null ? concurrency * batch : concurrency
  // With a rate, leave messages to other processes that would wait here for long.
  const most = rate === null ? CONSUMER_PREFETCH_MAX : Math.ceil(rate * CONSUMER_RATE_SECONDS)
  return Math.min(CONSUMER_PREFETCH_MAX, most, Math.max(CONSUMER_PREFETCH_MIN, wanted * 2))
}

const FIRST_RECEIVED = 16

/** How many messages to request: no more than there is room for, by number and by bytes. */
export class ReceiveSize {
  /** Recent bytes per message. It rises at once and falls slowly. Null: no message came yet. */
  #mean: number | null = null

  next(left: number, bytesInHand: number): number {
    if (this.#mean === null) return Math.min(left, FIRST_RECEIVED)
    if (this.#mean === 0) return left
    const room = Math.floor((CONSUMER_BYTES_MAX - bytesInHand) / this.#mean)
    // There is always room for one message, however large it is.
    return Math.min(left, Math.max(room, bytesInHand === 0 ? 1 : 0))
  }

  came(deliveries: readonly Delivery[]): void {
    if (deliveries.length === 0) return
    const mean = deliveries.reduce((sum, { bytes = 0 }) => sum + bytes, 0) / deliveries.length
    this.#mean = Math.max(mean, (this.#mean ?? 0) * 0.8 + mean * 0.2)
  }
}

const FIRST_BATCH = 32

/**
 * How many messages share a transaction: as many as take about CONSUMER_BATCH_MS together, limited by the free locks.
 */
export class BatchSize {
  /** Time may be short for a drain, as in a function. So it measures one message first. */
  isDrain = false
  readonly #settings: ConsumerSettings
  readonly #locks: LockBudget | undefined
  /** Recent milliseconds per message. */
  #pace: number | null = null

  constructor(settings: ConsumerSettings, locks: LockBudget | undefined) {
    this.#settings = settings
    this.#locks = locks
  }

  /**
   * Each message of a slow handler gets its own transaction. Concurrent transactions slow each other down, but that is
   * no reason for smaller batches.
   */
  next(running: number): number {
    const { leaseMs, delivery, deadlineMs } = this.#settings
    if (leaseMs !== null || delivery === 'at-most-once') return 1
    const batch = Math.min(this.#settings.batch, this.#locks?.most() ?? Infinity)
    if (this.#pace === null) return this.isDrain ? 1 : Math.min(batch, FIRST_BATCH)
    const ms = Math.min(CONSUMER_BATCH_MS * (running + 1), deadlineMs / 10)
    return Math.max(1, Math.min(batch, Math.floor(ms / Math.max(this.#pace, 0.001))))
  }

  took(ms: number, messages: number): void {
    const pace = ms / messages
    this.#pace = this.#pace === null ? pace : this.#pace * 0.8 + pace * 0.2
  }
}
