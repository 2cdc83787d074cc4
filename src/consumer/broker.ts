import { milliseconds } from '../duration.ts'
import type { Arrival } from './inbox/arrival.ts'
import { describeError } from '../platform/describe-error.ts'
import { BROKER_WITHIN_MS, INBOX_MS_MAX } from '../limits.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import { inTime } from '../platform/in-time.ts'
import type { Delivery, PulledSource, ReceiveParams, Subscription } from '../source/source.ts'
import { isApplied, type Fates } from './fate.ts'

export interface BrokerParts {
  readonly source: PulledSource<unknown>
  readonly subscription: Subscription
  readonly consumer: string
  readonly observe: Observe
  readonly clock: Clock
}

/**
 * A subscription whose failures are harmless: a message that was not acknowledged comes again as a duplicate. A signal
 * reports each failure.
 */
export class Broker {
  /** Infinity: as long as the connection lives. */
  readonly holdsForMs: number
  readonly #subscription: Subscription
  readonly #consumer: string
  readonly #observe: Observe
  readonly #clock: Clock

  constructor({ source, subscription, consumer, observe, clock }: BrokerParts) {
    const { holdsFor } = source
    const limits = { option: 'holdsFor', min: 1, max: INBOX_MS_MAX }
    this.holdsForMs = holdsFor === 'connection' ? Infinity : milliseconds(holdsFor, 0, limits)
    this.#subscription = subscription
    this.#consumer = consumer
    this.#observe = observe
    this.#clock = clock
  }

  get extends(): boolean {
    return this.#subscription.extend !== undefined
  }

  /** Acknowledged messages may come again if this process ends. */
  get acksLater(): boolean {
    return this.#subscription.acksLater === true
  }

  get isChanging(): boolean {
    return this.#subscription.isChanging === true
  }

  /**
   * A late read is reported, but not given up: with a second read, messages of the first one would be lost until they
   * are redelivered.
   */
  receive(params: ReceiveParams): Promise<readonly Delivery[]> {
    let cancel = (): void => {}
    const watch = (ms: number): void => {
      cancel = this.#clock.after(ms, () => {
        this.#troubled(noAnswer())
        watch(BROKER_WITHIN_MS)
      })
    }
    watch(params.waitMs + BROKER_WITHIN_MS)
    return this.#subscription.receive(params).finally(() => cancel())
  }

  onRevoked(callback: (partitions: readonly string[]) => void): void {
    this.#subscription.onRevoked?.(callback)
  }

  again(partitions: readonly string[]): void {
    this.#subscription.again?.(partitions)
  }

  ack(deliveries: readonly Delivery[]): Promise<boolean> {
    return this.told(() => this.#subscription.ack(deliveries))
  }

  async giveBack(deliveries: readonly Delivery[], delayMs: number): Promise<boolean> {
    const taken = await this.told(() => this.#subscription.giveBack(deliveries, { delayMs: Math.round(delayMs) }))
    if (taken) this.#observe({ kind: 'returned', consumer: this.#consumer, messages: deliveries.length })
    return taken
  }

  /** Tells the broker again and again that these messages are still being handled. Returns a function that stops it. */
  keepHolding(inHand: () => readonly Delivery[]): () => void {
    const everyMs = this.holdsForMs / 3
    let cancel = (): void => {}
    if (everyMs === Infinity || !this.extends) return cancel
    const next = (): void => {
      cancel = this.#clock.after(everyMs, () => {
        void this.extend(inHand())
        next()
      })
    }
    next()
    return () => cancel()
  }

  extend(deliveries: readonly Delivery[]): Promise<boolean> {
    return this.told(async () => this.#subscription.extend?.(deliveries))
  }

  /** Acknowledges messages, or rejects those that are stored as dead letters. */
  async settled(arrivals: readonly Arrival[], fates: Fates): Promise<void> {
    const ack: Delivery[] = []
    const reject = new Map<string, Delivery[]>()
    let applied = 0
    for (const arrival of arrivals) {
      const fate = fates.get(arrival)
      const parked = fate?.kind === 'parked' ? arrival.parkedAs : null
      if (fate && isApplied(fate)) applied++
      if (!parked) ack.push(...arrival.deliveries)
      else {
        const { letter, reason } = parked
        const { type, fingerprint } = letter
        this.#observe({ kind: 'deadLetter', consumer: this.#consumer, type, reason, fingerprint })
        reject.set(reason, [...(reject.get(reason) ?? []), ...arrival.deliveries])
      }
    }
    this.#observe({ kind: 'consumed', consumer: this.#consumer, messages: arrivals.length, applied })
    if (ack.length > 0) await this.ack(ack)
    for (const [reason, deliveries] of reject) {
      const { reject: refuse } = this.#subscription
      if (!refuse) await this.ack(deliveries)
      else await this.told(() => refuse.call(this.#subscription, deliveries, { reason }))
    }
  }

  /** If the source cannot answer now, it is asked again when the messages come again. */
  async orphans(deliveries: readonly Delivery[]): Promise<readonly Delivery[]> {
    let orphans: readonly Delivery[] = []
    await this.told(async () => {
      orphans = (await this.#subscription.orphans?.(deliveries)) ?? []
    })
    return orphans
  }

  failed({ delivery, attempts }: Arrival, error: unknown): void {
    const { type } = delivery
    const { fingerprint } = describeError(error)
    this.#observe({ kind: 'failed', consumer: this.#consumer, type, attempts, fingerprint, error })
  }

  close(): Promise<boolean> {
    return this.told(() => this.#subscription.close())
  }

  /** Returns whether the call succeeded in time. A signal reports why it failed. */
  async told(work: () => Promise<void>): Promise<boolean> {
    try {
      await inTime(work(), BROKER_WITHIN_MS, noAnswer, this.#clock)
      return true
    } catch (error) {
      this.#troubled(error)
      return false
    }
  }

  #troubled(error: unknown): void {
    this.#observe({ kind: 'troubled', task: 'consumer', error })
  }
}

function noAnswer(): Error {
  return new Error(`no answer from the broker within ${BROKER_WITHIN_MS} ms`)
}
