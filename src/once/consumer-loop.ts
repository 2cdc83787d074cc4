import { Arrival, keyOf } from '../inbox/arrival.ts'
import { Backlog } from '../inbox/backlog.ts'
import {
  CONSUMER_BATCH_MS,
  CONSUMER_BUSY_MS,
  CONSUMER_EARLY_LOOK_MS,
  CONSUMER_EARLY_LOOK_MS_MAX,
  CONSUMER_EARLY_MS,
  CONSUMER_PREFETCH_MAX,
  CONSUMER_PREFETCH_MIN,
  CONSUMER_REST_MS_MAX,
  CONSUMER_WAIT_MS,
} from '../limits.ts'
import { Bell } from '../outbox/bell.ts'
import { sleep } from '../platform/clock.ts'
import type { Delivery, PulledSource } from '../source/source.ts'
import type { Broker } from './consumer-broker.ts'
import type { ConsumerSettings } from './consumer-options.ts'
import { backoffMs, deliveriesOf, positionsAfter, type ConsumerParts } from './consumer-parts.ts'
import { countEarly, workOn, type Result, type Results } from './consumer-work.ts'

/** How many messages a consumer has in hand at most. */
export function prefetchOf({ concurrency, batch, leaseMs }: ConsumerSettings): number {
  const wanted = leaseMs === null ? concurrency * batch : concurrency
  return Math.min(CONSUMER_PREFETCH_MAX, Math.max(CONSUMER_PREFETCH_MIN, wanted * 2))
}

const FIRST_BATCH = 32

/** Receives, runs what may run, and settles with the broker. One for each start of a consumer. */
export class ConsumerLoop<Tx> {
  /** Messages that are settled. */
  handled = 0
  readonly #parts: ConsumerParts<Tx>
  readonly #source: PulledSource<unknown>
  readonly #broker: Broker
  readonly #backlog = new Backlog()
  readonly #stopping: AbortSignal
  readonly #prefetch: number
  readonly #room: Bell
  /** Transactions at a time: an embedded store has one writer. */
  readonly #concurrency: number
  #active = 0
  #suspectRunning = false
  #waitingForIdle: (() => void)[] = []
  #seq = 0
  #troubles = 0
  #cancelTimer: () => void = () => {}
  #cancelHold: () => void = () => {}
  /** Milliseconds per message, lately. */
  #pace: number | null = null

  constructor(parts: ConsumerParts<Tx>, source: PulledSource<unknown>, broker: Broker, stopping: AbortSignal) {
    this.#parts = parts
    this.#source = source
    this.#broker = broker
    this.#stopping = stopping
    this.#prefetch = prefetchOf(parts.settings)
    this.#room = new Bell(parts.core.clock)
    this.#concurrency =
      parts.core.store.features.concurrentClaims || parts.settings.leaseMs !== null ? parts.settings.concurrency : 1
    stopping.addEventListener('abort', () => this.#room.ring(), { once: true })
    broker.onRevoked((partitions) => this.#revoked(partitions))
  }

  /** Until it is stopped; `once`: until nothing is left to do now. */
  async run(once: boolean): Promise<void> {
    this.#keepHolding()
    try {
      while (!this.#stopping.aborted) {
        const left = this.#prefetch - this.#backlog.size
        if (left <= 0) {
          this.#relieve()
          await this.#room.wait(CONSUMER_WAIT_MS)
          continue
        }
        const came = await this.#receive(left, once || this.#waitingForIdle.length > 0)
        if (came === 0 && this.#active === 0 && this.#backlog.size === 0) this.#tellIdle()
        if (came > 0 || !once) continue
        if (this.#active === 0 && this.#backlog.size === 0) return
        if (this.#active === 0 && this.#backlog.nextAt() > this.#now + CONSUMER_EARLY_MS) return
        await this.#room.wait(Math.min(50, Math.max(1, this.#backlog.nextAt() - this.#now)))
        this.#dispatch()
      }
    } finally {
      await this.#end()
      this.#tellIdle()
    }
  }

  #tellIdle(): void {
    for (const resolve of this.#waitingForIdle.splice(0)) resolve()
  }

  /** Resolves when nothing is in hand, and nothing came for a while. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#waitingForIdle.push(resolve))
  }

  get #now(): number {
    return this.#parts.core.clock.now()
  }

  async #receive(max: number, once: boolean): Promise<number> {
    const { core } = this.#parts
    const at = this.#now
    try {
      const waitMs = once ? 20 : CONSUMER_WAIT_MS
      const deliveries = await this.#broker.receive({ max, waitMs, signal: this.#stopping })
      for (const delivery of deliveries) this.#add(delivery)
      this.#troubles = 0
      this.#dispatch()
      // A source that comes back empty-handed at once would have us spin.
      if (deliveries.length === 0 && this.#now - at < 1) await sleep(core.clock, 5, this.#stopping)
      return deliveries.length
    } catch (error) {
      if (this.#stopping.aborted) return 0
      core.settings.observe({ kind: 'troubled', task: 'consumer', error })
      if (once) throw error
      await sleep(core.clock, backoffMs(this.#parts, ++this.#troubles), this.#stopping)
      return 0
    }
  }

  #add(delivery: Delivery): void {
    const { settings, tracker } = this.#parts
    tracker?.received(delivery)
    const { key, name: consumer } = settings
    const seq = this.#seq++
    this.#backlog.add(new Arrival({ delivery, consumer, seq, at: this.#now, ...keyOf(key, delivery) }))
  }

  #dispatch(): void {
    while (this.#active < this.#concurrency && !this.#stopping.aborted) {
      const batch = this.#backlog.pick(this.#size(), this.#now, !this.#suspectRunning)
      const [first] = batch
      if (!first) break
      this.#active++
      if (first.suspect) this.#suspectRunning = true
      void this.#work(batch).finally(() => {
        this.#active--
        if (first.suspect) this.#suspectRunning = false
        this.#room.ring()
        this.#dispatch()
      })
    }
    this.#arm()
  }

  /** As many as take about CONSUMER_BATCH_MS together: slow handlers get transactions of their own. */
  #size(): number {
    const { batch, leaseMs, delivery } = this.#parts.settings
    if (leaseMs !== null || delivery === 'at-most-once') return 1
    if (this.#pace === null) return Math.min(batch, FIRST_BATCH)
    return Math.max(1, Math.min(batch, Math.floor(CONSUMER_BATCH_MS / Math.max(this.#pace, 0.001))))
  }

  async #work(batch: readonly Arrival[]): Promise<void> {
    const startedAt = this.#now
    if (this.#parts.settings.delivery === 'at-most-once') {
      // Before anything runs; if that cannot be had, nothing runs.
      if (!(await this.#broker.ack(deliveriesOf(batch)))) return this.#backlog.later(batch)
    }
    const results = await workOn(this.#parts, batch)
    const pace = (this.#now - startedAt) / batch.length
    this.#pace = this.#pace === null ? pace : this.#pace * 0.8 + pace * 0.2
    await this.#settle(results)
  }

  async #settle(results: Results): Promise<void> {
    const settled: Arrival[] = []
    const passed: Arrival[] = []
    for (const [arrival, result] of results) {
      if (result.kind === 'settled') (result.applied ? settled : passed).push(arrival)
      else await this.#postpone(arrival, result)
    }
    await this.#acknowledge([...settled, ...passed], results)
    this.#backlog.done(settled, true)
    this.#backlog.done(passed, false)
  }

  async #acknowledge(arrivals: readonly Arrival[], results: Results): Promise<void> {
    if (arrivals.length === 0) return
    const { tracker, inbox, settings, core } = this.#parts
    const deliveries = deliveriesOf(arrivals)
    const positions = tracker && positionsAfter(this.#parts, deliveries)
    if (positions) {
      // What committed with an effect is passed already; a position never goes back.
      await inbox.pass({ consumer: settings.name, ...positions }).catch((error: unknown) => {
        core.settings.observe({ kind: 'troubled', task: 'consumer', error })
      })
    }
    tracker?.settled(deliveries)
    this.handled += arrivals.length
    await this.#broker.settled(arrivals, results)
  }

  async #postpone(arrival: Arrival, result: Exclude<Result, { kind: 'settled' }>): Promise<void> {
    const { orders, delays } = this.#source.features
    switch (result.kind) {
      case 'again':
        return this.#later(arrival, 0)
      case 'troubled':
        this.#parts.core.settings.observe({ kind: 'troubled', task: 'consumer', error: result.error })
        return this.#later(arrival, backoffMs(this.#parts, ++this.#troubles))
      case 'busy': {
        const delayMs = CONSUMER_BUSY_MS * (0.5 + this.#parts.core.random.next())
        // Its successors must not overtake it.
        return orders || !delays ? this.#later(arrival, delayMs) : this.#giveBack([arrival], delayMs)
      }
      case 'early':
        return this.#early(arrival)
      case 'retry':
        return this.#retry(arrival, result)
    }
  }

  async #retry(arrival: Arrival, { error, attempts }: { error: unknown; attempts: number }): Promise<void> {
    const delayMs = backoffMs(this.#parts, attempts)
    this.#broker.failed(arrival, error, attempts)
    arrival.alone = true
    if (delayMs <= CONSUMER_REST_MS_MAX && this.#mayHold(arrival, delayMs)) return this.#later(arrival, delayMs)
    const { aggregate, source } = arrival.item
    const behind = this.#backlog.drop(
      ({ item }) => aggregate !== null && item.aggregate === aggregate && item.source === source,
    )
    await this.#giveBack([arrival, ...behind], delayMs)
  }

  async #early(arrival: Arrival): Promise<void> {
    const now = this.#now
    arrival.earlySince ??= now
    if (now - arrival.earlySince < CONSUMER_EARLY_MS && this.#mayHold(arrival, 0)) {
      const lookMs = CONSUMER_EARLY_LOOK_MS * 2 ** Math.min(arrival.earlyLooks++, 10)
      return this.#later(arrival, Math.min(CONSUMER_EARLY_LOOK_MS_MAX, lookMs) * (0.5 + this.#parts.core.random.next()))
    }
    const result = await countEarly(this.#parts, arrival)
    if (result.kind === 'settled') return this.#settle(new Map([[arrival, result]]))
    return this.#giveBack([arrival], CONSUMER_EARLY_LOOK_MS_MAX)
  }

  #later(arrival: Arrival, delayMs: number): void {
    arrival.notBefore = delayMs === 0 ? 0 : this.#now + delayMs
    this.#backlog.later([arrival])
  }

  async #giveBack(arrivals: readonly Arrival[], delayMs: number): Promise<void> {
    if (await this.#broker.giveBack(deliveriesOf(arrivals), delayMs)) return this.#backlog.done(arrivals, false)
    for (const arrival of arrivals) this.#later(arrival, delayMs)
  }

  #mayHold(arrival: Arrival, delayMs: number): boolean {
    return this.#broker.extends || this.#now - arrival.at + delayMs < this.#broker.holdsForMs / 2
  }

  /** Full, and everybody waits for a predecessor that has no room to come in: the oldest go back. */
  #relieve(): void {
    if (this.#active > 0) return
    const early = this.#backlog.drop(({ earlySince }) => earlySince !== null)
    if (early.length === 0) return
    void this.#broker.giveBack(deliveriesOf(early), CONSUMER_EARLY_LOOK_MS_MAX)
    this.#room.ring()
  }

  #revoked(partitions: readonly string[]): void {
    const lost = new Set(partitions)
    this.#backlog.drop(({ delivery }) => delivery.position !== undefined && lost.has(delivery.position.partition))
    this.#parts.tracker?.forget(partitions)
    this.#room.ring()
  }

  /** Wakes when the next one that rests may run. */
  #arm(): void {
    this.#cancelTimer()
    const next = this.#backlog.nextAt()
    if (next === Infinity || this.#stopping.aborted) return
    this.#cancelTimer = this.#parts.core.clock.after(Math.max(1, next - this.#now), () => this.#dispatch(), true)
  }

  /** The broker is told that we are still at work. */
  #keepHolding(): void {
    const everyMs = this.#broker.holdsForMs / 3
    if (everyMs === Infinity || !this.#broker.extends) return
    const next = (): void => {
      this.#cancelHold = this.#parts.core.clock.after(everyMs, () => {
        void this.#broker.extend([...this.#backlog.arrivals()].flatMap((arrival) => arrival.deliveries))
        next()
      })
    }
    next()
  }

  /** What runs may end; what did not begin goes back at once. */
  async #end(): Promise<void> {
    this.#cancelTimer()
    const until = this.#now + this.#parts.settings.deadlineMs
    while (this.#active > 0 && this.#now < until) await this.#room.wait(Math.min(50, until - this.#now))
    this.#cancelHold()
    const left = this.#backlog.drop(() => true)
    if (left.length > 0) await this.#broker.giveBack(deliveriesOf(left), 0)
  }
}
