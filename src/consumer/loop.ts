import { Arrival, keyOf } from './inbox/arrival.ts'
import { Backlog } from './inbox/backlog.ts'
import { WaitingForPredecessor } from './inbox/waiting-for-predecessor.ts'
import {
  CONSUMER_BUSY_MS,
  CONSUMER_DRAIN_MS,
  CONSUMER_EARLY_BACK_MS,
  CONSUMER_EARLY_MS,
  CONSUMER_ORPHANED_AFTER,
  CONSUMER_REST_MS_MAX,
  CONSUMER_WAIT_MS,
} from '../limits.ts'
import { WakeSignal } from '../outbox/wake-signal.ts'
import { sleep } from '../platform/clock.ts'
import { Throttle } from '../platform/rate-limit.ts'
import type { Delivery, PulledSource } from '../source/source.ts'
import type { Broker } from './broker.ts'
import { isApplied, isSettled, type Fate, type Fates, type SettledFate } from './fate.ts'
import { ackFirst } from './first.ts'
import { IdleDrains } from './idle-drains.ts'
import { letOrphansRun } from './orphans.ts'
import { backoffMs, deliveriesOf, pauseWhileDownMs, endedInTime, type ConsumerParts } from './parts.ts'
import { lookForRewinds } from './rewinds.ts'
import { prefetchOf, ReceiveSize } from './size.ts'
import { StoreRest } from './store-rest.ts'
import { parkOrphans, passSettled, uncount, workOn } from './work.ts'
import { tellCrowded, withLocks } from '../operation/crowding.ts'

/** Receives messages, runs those that may run, and settles them. Each start of a consumer has its own loop. */
export class ConsumerLoop<Tx> {
  /** Messages that are settled. */
  handled = 0
  readonly drains: IdleDrains = new IdleDrains()
  readonly #parts: ConsumerParts<Tx>
  readonly #source: PulledSource<unknown>
  readonly #broker: Broker
  readonly #backlog = new Backlog()
  readonly #early: WaitingForPredecessor
  readonly #stopping: AbortSignal
  readonly #prefetch: number
  readonly #room: WakeSignal
  readonly #receives = new ReceiveSize()
  readonly #throttle: Throttle
  /** Transactions at a time: an embedded store has one writer. */
  readonly #concurrency: number
  #active = 0
  underWay = 0
  /** Aborts when running work is no longer waited for. */
  endsBy: number = Infinity
  #suspectRunning = false
  #heldBackByRateOrRest = false
  #seq = 0
  #troubles = 0
  readonly #rest: StoreRest
  #cancelTimer: () => void = () => {}
  #cancelHold: () => void = () => {}

  constructor(parts: ConsumerParts<Tx>, source: PulledSource<unknown>, broker: Broker, stopping: AbortSignal) {
    this.#parts = parts
    this.#source = source
    this.#broker = broker
    this.#stopping = stopping
    const { core, inbox, settings } = parts
    this.#prefetch = prefetchOf(settings)
    this.#room = new WakeSignal(core.clock)
    this.#throttle = new Throttle(core.clock, settings.rate, () => this.#dispatch())
    this.#concurrency = core.store.features.concurrentClaims || settings.leaseMs !== null ? settings.concurrency : 1
    this.#rest = new StoreRest(core)
    this.#early = new WaitingForPredecessor({
      clock: core.clock,
      holdMs: broker.extends ? CONSUMER_EARLY_MS : Math.min(CONSUMER_EARLY_MS, broker.holdsForMs / 2),
      look: (items) => inbox.look({ consumer: settings.name, items }),
      ready: (arrivals) => {
        this.#backlog.ready(arrivals)
        this.#dispatch()
      },
      giveUp: (arrivals) => void this.#giveUp(arrivals),
      troubled: (error) => core.settings.observe({ kind: 'troubled', task: 'consumer', error }),
    })
    stopping.addEventListener('abort', () => this.#room.signal(), { once: true })
    broker.onRevoked((partitions) => this.#revoked(partitions))
  }

  /** Runs until it is stopped. With `once`, it runs until nothing is left to do. */
  async run(once: boolean): Promise<void> {
    this.#parts.size.isDrain = once
    this.#cancelHold = this.#broker.keepHolding(() => deliveriesOf([...this.#backlog.arrivals()]))
    const cancelLooks = lookForRewinds(this.#parts, this.#broker)
    try {
      while (!this.#stopping.aborted) {
        if (this.#parts.pausing.paused) {
          if (this.#active === 0) this.drains.end()
          if (once && this.#active === 0) return
          // A source that keeps order would not give the messages to another process.
          if (!this.#source.features.orders) await this.#putBack()
          await this.#room.wait(CONSUMER_WAIT_MS)
          continue
        }
        // Messages that wait for a predecessor do not count. Otherwise there might be no room for the predecessor.
        const left = this.#prefetch - this.#backlog.size + this.#early.size
        const max = this.#receives.next(left, this.#backlog.bytes - this.#early.bytes)
        if (max <= 0) {
          await this.#room.wait(CONSUMER_WAIT_MS)
          continue
        }
        const came = await this.#receive(max, once)
        if (came === 0 && this.#isQuiet && this.#backlog.size === 0) this.drains.tell()
        if (came !== 0 || !once) continue
        this.#dispatch()
        if (this.#isQuiet && this.#backlog.size === 0) return
        const waits = this.#early.size > 0 || this.#heldBackByRateOrRest
        if (this.#isQuiet && !waits && this.#backlog.nextAt() > this.#now + CONSUMER_DRAIN_MS) return
        await this.#room.wait(Math.min(50, Math.max(1, this.#backlog.nextAt() - this.#now)))
      }
    } finally {
      cancelLooks()
      await this.#end()
      this.drains.end()
    }
  }

  resume(): void {
    this.#room.signal()
    this.#dispatch()
  }

  get #isQuiet(): boolean {
    return this.#active === 0 && !this.#broker.isChanging
  }

  get #now(): number {
    return this.#parts.core.clock.now()
  }

  /** Returns how many messages came. Null: the read failed, so more may wait. */
  async #receive(max: number, once: boolean): Promise<number | null> {
    const { core } = this.#parts
    const at = this.#now
    try {
      const waitMs = once || this.drains.any ? 20 : CONSUMER_WAIT_MS
      const params = { max, waitMs, signal: this.#stopping, drains: this.drains.read() }
      const deliveries = await this.#broker.receive(params)
      this.#receives.came(deliveries)
      this.#parts.tracker?.received(deliveries)
      for (const delivery of deliveries) this.#add(delivery)
      this.#troubles = 0
      this.#dispatch()
      // If a source returns nothing at once, this loop must not spin.
      if (deliveries.length === 0 && this.#now - at < 1) await sleep(core.clock, 5, this.#stopping)
      return deliveries.length
    } catch (error) {
      if (this.#stopping.aborted) return null
      core.settings.observe({ kind: 'troubled', task: 'consumer', error })
      if (once) throw error
      await sleep(core.clock, pauseWhileDownMs(this.#parts, ++this.#troubles), this.#stopping)
      return null
    }
  }

  #add(delivery: Delivery): void {
    const { core, settings } = this.#parts
    const of = { delivery, consumer: core.namespace.hashed(settings.name), seq: this.#seq++, at: this.#now }
    this.#backlog.add(new Arrival({ ...of, ...keyOf(settings.key, delivery) }))
  }

  #dispatch(): void {
    // Read the clock once. If a pause ended between two reads, no timer would be set for it.
    let now = this.#now
    for (; this.#active < this.#concurrency && this.#rest.mayBegin(now) && !this.#stopping.aborted; now = this.#now) {
      if (this.#parts.pausing.paused) break
      const most = Math.min(this.#throttle.room(), this.#parts.size.next(this.#active))
      if (this.#rest.until > 0) this.#backlog.untriedFirst()
      const batch = this.#backlog.pick(most, now, !this.#suspectRunning)
      const [first] = batch
      if (!first) break
      this.#throttle.started(batch.length)
      this.#rest.began()
      for (const arrival of batch) {
        this.#early.delete(arrival)
        arrival.takesTwins()
      }
      this.#active++
      this.underWay += batch.length
      // Remember the flag from when the batch was picked, because the attempts in the database may change it.
      const { suspect } = first
      if (suspect) this.#suspectRunning = true
      void withLocks(this.#parts.core, batch.length, () => this.#work(batch)).finally(() => {
        this.#active--
        this.underWay -= batch.length
        if (suspect) this.#suspectRunning = false
        this.#room.signal()
        this.#dispatch()
      })
    }
    this.#heldBackByRateOrRest = this.#throttle.waiting || !this.#rest.mayBegin(now)
    this.#arm(now)
  }

  async #work(batch: readonly Arrival[]): Promise<void> {
    const startedAt = this.#now
    const apart = batch[0]?.suspect || batch[0]?.alone
    if (this.#parts.settings.delivery === 'at-most-once') {
      const first = await ackFirst(this.#parts, { source: this.#source, broker: this.#broker }, batch)
      if (first === 'begun') return this.#settle(new Map(batch.map((arrival) => [arrival, { kind: 'passed' }])))
      if (first === 'troubled') return this.#later(batch, this.#rest.met())
    }
    const fates = await workOn(this.#parts, batch)
    // The time of messages that run apart says nothing about ordinary batches.
    if (!apart) this.#parts.size.took(this.#now - startedAt, batch.length)
    await letOrphansRun(this.#broker, fates)
    await this.#settle(fates)
  }

  async #settle(fates: Fates): Promise<void> {
    const settled: Arrival[] = []
    const passed: Arrival[] = []
    const troubled = this.#troubled(fates)
    for (const [arrival, fate] of fates) {
      if (isSettled(fate)) (isApplied(fate) ? settled : passed).push(arrival)
      else await this.#postpone(arrival, fate, troubled)
    }
    // Before the acknowledgement: a duplicate that comes now is a new message. As a twin, nothing would settle it.
    this.#backlog.done(settled, true)
    this.#backlog.done(passed, false)
    // Not received again: if the partition was lost meanwhile, this position would skip messages that were lost too.
    for (const delivery of [...settled, ...passed].flatMap((of) => of.lateTwins())) this.#add(delivery)
    const arrivals = [...settled, ...passed]
    if (arrivals.length === 0) return
    await passSettled(this.#parts, arrivals, fates)
    this.handled += arrivals.length
    await this.#broker.settled(arrivals, fates)
  }

  /** All messages of the batch met one trouble. It is reported once, and the pause grows once. Returns the pause. */
  #troubled(fates: Fates): number {
    const trouble = [...fates.values()].find((fate) => fate.kind === 'troubled')
    if (!trouble) return this.#rest.ended(fates)
    this.#parts.core.settings.observe({ kind: 'troubled', task: 'consumer', error: trouble.error })
    tellCrowded(this.#parts.core, 'consumer', trouble.error)
    return this.#rest.met()
  }

  async #postpone(arrival: Arrival, fate: Exclude<Fate, SettledFate>, troubledMs: number): Promise<void> {
    const { orders, delays } = this.#source.features
    switch (fate.kind) {
      case 'again':
        return this.#later([arrival], 0)
      case 'troubled':
        return this.#later([arrival], troubledMs)
      case 'behind':
      case 'busy': {
        const delayMs = CONSUMER_BUSY_MS * (0.5 + this.#parts.core.random.next())
        // Successors must not overtake this message.
        return orders || !delays ? this.#later([arrival], delayMs) : this.#giveBack([arrival], delayMs)
      }
      case 'early':
        this.#early.add(arrival)
        return this.#backlog.later([arrival])
      case 'failed':
        return this.#retry(arrival, fate.error)
    }
  }

  async #retry(arrival: Arrival, error: unknown): Promise<void> {
    const delayMs = backoffMs(this.#parts, arrival.attempts)
    this.#broker.failed(arrival, error)
    arrival.alone = true
    // If it were returned, it would come after later messages of its source.
    const rests = this.#source.features.orders || delayMs <= CONSUMER_REST_MS_MAX
    if (rests && this.#mayHold(arrival, delayMs)) return this.#later([arrival], delayMs)
    const { aggregate, source } = arrival.item
    const behind = this.#backlog.drop(
      ({ item }) => aggregate !== null && item.aggregate === aggregate && item.source === source,
    )
    await this.#giveBack([arrival, ...behind], delayMs)
  }

  /** Returns messages to the broker, so that other processes may take them. A message that came too often is parked. */
  async #giveUp(arrivals: readonly Arrival[]): Promise<void> {
    const late = new Set(arrivals)
    const dropped = this.#backlog.drop((arrival) => late.has(arrival))
    const orphans = dropped.filter(({ delivery }) => (delivery.delivered ?? 0) >= CONSUMER_ORPHANED_AFTER)
    const others = dropped.filter((arrival) => !orphans.includes(arrival))
    if (others.length > 0) await this.#back(others, CONSUMER_EARLY_BACK_MS)
    if (orphans.length > 0) await this.#settle(await parkOrphans(this.#parts, orphans))
    this.resume()
  }

  #later(arrivals: readonly Arrival[], delayMs: number): void {
    for (const arrival of arrivals) arrival.waitUntil(delayMs === 0 ? 0 : this.#now + delayMs)
    this.#backlog.later(arrivals)
  }

  async #giveBack(arrivals: readonly Arrival[], delayMs: number): Promise<void> {
    await uncount(this.#parts, arrivals)
    const given = new Set(deliveriesOf(arrivals))
    if (!(await this.#back(arrivals, delayMs))) return
    this.#backlog.done(arrivals, false)
    const twins = deliveriesOf(arrivals).filter((delivery) => !given.has(delivery))
    if (twins.length > 0 && !(await this.#broker.giveBack(twins, delayMs))) for (const of of twins) this.#add(of)
  }

  /** Keeps messages that the broker does not accept back. Else they would come again only with a new connection. */
  async #back(arrivals: readonly Arrival[], delayMs: number): Promise<boolean> {
    const taken = await this.#broker.giveBack(deliveriesOf(arrivals), delayMs)
    if (!taken) this.#later(arrivals, delayMs)
    return taken
  }

  #mayHold(arrival: Arrival, delayMs: number): boolean {
    return this.#broker.extends || this.#now - arrival.at + delayMs < this.#broker.holdsForMs / 2
  }

  #revoked(partitions: readonly string[]): void {
    const lost = new Set<string | undefined>(partitions)
    const dropped = this.#backlog.drop(({ delivery }) => lost.has(delivery.position?.partition))
    for (const arrival of dropped) this.#early.delete(arrival)
    void uncount(this.#parts, dropped)
    this.#parts.tracker?.forget(partitions)
    this.#room.signal()
  }

  /** Sets the timer for the next waiting message. `resume` and the end of a batch start the loop by themselves. */
  #arm(now: number): void {
    this.#cancelTimer()
    const waits = this.#parts.pausing.paused || this.#active >= this.#concurrency || !this.#rest.mayBegin(now)
    const next = this.#rest.until > now ? this.#rest.until : waits ? Infinity : this.#backlog.nextAt()
    if (next === Infinity || this.#stopping.aborted) return
    this.#cancelTimer = this.#parts.core.clock.after(Math.max(1, next - now), () => this.#dispatch(), true)
  }

  /** Running messages may finish. Messages that did not start are returned at once. */
  async #end(): Promise<void> {
    this.#cancelTimer()
    this.#early.stop()
    const until = Math.min(this.#now + this.#parts.settings.deadlineMs, this.endsBy)
    while (this.#active > 0 && this.#now < until) await this.#room.wait(Math.min(50, until - this.#now))
    this.#cancelHold()
    await this.#putBack()
  }

  async #putBack(): Promise<void> {
    const left = this.#backlog.drop(() => true)
    for (const arrival of left) this.#early.delete(arrival)
    await uncount(this.#parts, left)
    if (left.length > 0) await endedInTime(this.#parts, this.#back(left, 0))
  }
}
