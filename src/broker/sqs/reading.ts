import { BROKER_WITHIN_MS } from '../../limits.ts'
import { SQS_ENTRIES_MAX, SQS_HELD_MIN, SQS_POLLS_MAX, SQS_STUCK_MS } from './limits.ts'
import { newUuid } from '../../platform/uuid.ts'
import type { ReceiveParams } from '../../source/source.ts'
import { untilRung } from '../../source/waiting.ts'
import { answered, isFifo, type SqsClient } from './client.ts'
import { SqsDelivery } from './delivery.ts'
import { nameOf } from './queue.ts'
import { SqsSettling } from './settling.ts'

export interface SqsReadingOptions {
  readonly queue: string
  readonly name: string
  readonly visibilitySeconds: number
  /** How long a read waits for messages. */
  readonly waitSeconds: number
  /** The most messages that the consumer holds, besides those that wait for a predecessor. */
  readonly prefetch: number
  readonly signal: AbortSignal
}

const SHORT_MS = 1_000

/**
 * Reads by long polling. A poll is never given up: SQS would keep its messages from everybody until their visibility
 * timeout ends. What comes late waits for the next call.
 */
export class SqsReading {
  readonly #client: SqsClient
  readonly #options: SqsReadingOptions
  readonly #settling: SqsSettling
  readonly #polls = new Set<Promise<void>>()
  #arrived: SqsDelivery[] = []
  /** Deliveries that are neither deleted nor returned, and when they become visible if nothing prolongs it. */
  readonly #held = new Map<SqsDelivery, number>()
  #settledAt = performance.now()
  readonly #pace: Pace
  #prolonging: Promise<void> | undefined
  /** The last poll brought as many messages as it could, so there are more. */
  #isBusy = false
  #failure: { readonly error: unknown } | undefined
  #ring: () => void = () => {}
  #closed = false

  constructor(client: SqsClient, options: SqsReadingOptions) {
    this.#client = client
    this.#options = options
    this.#settling = new SqsSettling(client, options.queue)
    this.#pace = new Pace((options.visibilitySeconds * 1_000) / 3)
  }

  async next({ max, waitMs, signal }: ReceiveParams): Promise<SqsDelivery[]> {
    const until = performance.now() + waitMs
    // A caller with little time wants to know whether there is anything, so the answer is waited for.
    const isShort = waitMs < SHORT_MS
    const seconds = isShort ? 1 : this.#options.waitSeconds
    const isOver = (): boolean => signal.aborted || this.#options.signal.aborted || this.#closed
    if (this.#isBusy && !isOver()) this.#poll(max, seconds)
    while (this.#arrived.length === 0 && !isOver()) {
      if (this.#failure) {
        const { error } = this.#failure
        this.#failure = undefined
        throw error
      }
      const leftMs = until - performance.now()
      if (leftMs <= 0) break
      this.#poll(max, seconds)
      const waits = isShort && this.#polls.size > 0 ? BROKER_WITHIN_MS : leftMs
      await untilRung(waits, [signal, this.#options.signal], (ring) => (this.#ring = ring))
    }
    return this.#arrived.splice(0, max)
  }

  async delete(deliveries: readonly SqsDelivery[]): Promise<void> {
    await this.#settling.delete(deliveries).finally(() => this.#settled(deliveries))
    this.#pace.count(deliveries.length)
  }

  async giveBack(deliveries: readonly SqsDelivery[], seconds: number): Promise<void> {
    await this.#settling.hide(deliveries, seconds)
    this.#settled(deliveries)
  }

  /** Prolongs those that would become visible soon. Each request has only ten messages, so the others wait. */
  async prolong(deliveries: readonly SqsDelivery[]): Promise<void> {
    const { visibilitySeconds } = this.#options
    const soon = performance.now() + (visibilitySeconds * 1_000 * 2) / 3
    // If the former call still runs, SQS is slow, and a second one would make it slower.
    if (this.#prolonging) return this.#prolonging
    const due = deliveries.filter((delivery) => (this.#held.get(delivery) ?? Infinity) < soon)
    const visibleAt = this.#visibleAt()
    this.#prolonging = this.#settling.hide(due, visibilitySeconds).finally(() => (this.#prolonging = undefined))
    await this.#prolonging
    for (const delivery of due) if (this.#held.has(delivery)) this.#held.set(delivery, visibleAt)
  }

  /** Makes unsettled messages visible to others at once. */
  async close(): Promise<void> {
    this.#closed = true
    this.#ring()
    await Promise.all([...this.#polls, this.#prolonging?.catch(() => {})])
    const held = [...this.#held.keys()]
    this.#held.clear()
    await this.#settling.hide(held, 0)
  }

  #settled(deliveries: readonly SqsDelivery[]): void {
    for (const delivery of deliveries) this.#held.delete(delivery)
    this.#settledAt = performance.now()
    this.#ring()
  }

  #visibleAt(): number {
    return performance.now() + this.#options.visibilitySeconds * 1_000
  }

  /**
   * Messages that wait here for long must be prolonged, ten at a time, and are kept from other processes. But if nothing
   * was settled for a while, they may wait for what is not read yet.
   */
  #isFull(max: number): boolean {
    const inHand = Math.min(this.#held.size, this.#options.prefetch - max)
    return inHand >= this.#pace.perWindow && performance.now() - this.#settledAt < SQS_STUCK_MS
  }

  #poll(max: number, seconds: number): void {
    if (this.#isFull(max)) return
    const most = this.#isBusy ? SQS_POLLS_MAX : 1
    let room = max - this.#arrived.length - this.#polls.size * SQS_ENTRIES_MAX
    for (; this.#polls.size < most && room > 0; room -= SQS_ENTRIES_MAX) {
      const poll = this.#receive(Math.min(SQS_ENTRIES_MAX, room), seconds).finally(() => {
        this.#polls.delete(poll)
        this.#ring()
      })
      this.#polls.add(poll)
    }
  }

  async #receive(count: number, seconds: number): Promise<void> {
    const { queue, name, visibilitySeconds } = this.#options
    const request = {
      QueueUrl: queue,
      MaxNumberOfMessages: count,
      WaitTimeSeconds: seconds,
      VisibilityTimeout: visibilitySeconds,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['ApproximateReceiveCount' as const, 'MessageGroupId' as const],
      // If the client repeats a request whose answer was lost, SQS gives it the same messages.
      ...(isFifo(queue) ? { ReceiveRequestAttemptId: newUuid() } : {}),
    }
    try {
      const withinMs = seconds * 1_000 + BROKER_WITHIN_MS
      const visibleAt = this.#visibleAt()
      const { Messages = [] } = await answered(withinMs, (call) => this.#client.receiveMessage(request, call))
      this.#isBusy = Messages.length === SQS_ENTRIES_MAX
      for (const message of Messages) {
        const delivery = new SqsDelivery(message, { queue: nameOf(queue), name })
        this.#held.set(delivery, visibleAt)
        this.#arrived.push(delivery)
      }
    } catch (error) {
      this.#isBusy = false
      this.#failure = { error }
    }
  }
}

/** How many messages this process settles in a third of the visibility timeout, so that few must be prolonged. */
class Pace {
  readonly #windowMs: number
  #until: number
  #now = 0
  #before = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
    this.#until = performance.now() + windowMs
  }

  count(settled: number): void {
    this.#turn()
    this.#now += settled
  }

  get perWindow(): number {
    this.#turn()
    return Math.max(SQS_HELD_MIN, this.#before, this.#now)
  }

  #turn(): void {
    const lateMs = performance.now() - this.#until
    if (lateMs < 0) return
    this.#before = lateMs < this.#windowMs ? this.#now : 0
    this.#now = 0
    this.#until = performance.now() + this.#windowMs
  }
}
