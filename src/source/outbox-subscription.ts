import {
  CONSUMER_BYTES_MAX,
  CONSUMER_BYTES_SHARE,
  RELAY_BATCH_BYTES,
  RELAY_POLL_MS_MAX,
  RELAY_POLL_MS_MIN,
} from '../limits.ts'
import { WakeSignal } from '../outbox/wake-signal.ts'
import { delayed, notBeforeOf } from '../outbox/holding.ts'
import { ShardLeases } from '../outbox/shard-leases.ts'
import { intent } from '../outbox/ledger.ts'
import { ReadSize } from '../outbox/read-size.ts'
import { Seals } from '../outbox/seals.ts'
import type { Shard } from '../outbox/shard.ts'
import { newUuid } from '../platform/uuid.ts'
import { isErasedEvent } from '../store/erasure.ts'
import type { HoldParams, StoredEvent } from '../store/outbox.ts'
import { OutboxDelivery } from './outbox-delivery.ts'
import { OutboxDue } from './outbox-due.ts'
import { orphansOf } from './outbox-orphans.ts'
import type { OutboxSourceParts } from './outbox-parts.ts'
import { OneAtATime } from './one-at-a-time.ts'
import { ShardWindow, UNDER_WAY } from './outbox-window.ts'
import type { Delivery, ReceiveParams, Subscription } from './source.ts'

/** The most unsettled events of one shard. The cursor waits for the first of them. */
const WINDOW_MAX = 4_096
const WINDOW_BYTES_MAX = CONSUMER_BYTES_MAX / CONSUMER_BYTES_SHARE
/** How often cursors are written, after the effects. After a crash, unwritten events come again as duplicates. */
const FLUSH_MS = 20
/** At most this many events may have been running when a process died. They are marked as redelivered. */
const REDELIVERED_MAX = 4_096

interface Returned {
  readonly delivery: OutboxDelivery
  readonly at: number
}

/** One process's share of the outbox's shards, for one consumer. */
export class OutboxSubscription implements Subscription {
  readonly acksLater = true
  readonly #parts: OutboxSourceParts
  readonly #destination: string
  readonly #wake: WakeSignal
  readonly #leases: ShardLeases
  readonly #windows = new Map<Shard, ShardWindow>()
  /** Shards whose last owner died, with the number of events that may have been running. */
  readonly #doubtful = new Map<Shard, number>()
  #returned: Returned[] = []
  readonly #due: OutboxDue
  #holds: HoldParams[] = []
  #pollMs = RELAY_POLL_MS_MIN
  #turn = 0
  #asksSince: number | null = null
  readonly #size = new ReadSize()
  /** One flush at a time. Otherwise a cursor could pass an event before its hold is written. */
  readonly #flushing = new OneAtATime(() => this.#flushNow())
  readonly #seals: Seals
  #flushArmed = false
  #closed = false
  #revoked: (partitions: readonly string[]) => void = () => {}
  #unsubscribe: () => void = () => {}

  constructor(parts: OutboxSourceParts, consumer: string) {
    this.#parts = parts
    this.#destination = `consumer ${consumer}`
    this.#wake = new WakeSignal(parts.clock)
    const { outbox, clock, observe, source, leaseMs } = parts
    const tell = (): void => this.#wake.signal()
    const destination = this.#destination
    const more = { relay: newUuid(), tell, asksSince: (): number | null => this.#asksSince }
    this.#leases = new ShardLeases({ outbox, clock, observe, source, destination, leaseMs, ...more })
    this.#seals = new Seals(this.#leases)
    this.#due = new OutboxDue(parts, destination, this.#leases)
  }

  async start(): Promise<void> {
    await this.#leases.start()
    this.#unsubscribe = this.#parts.onPublished((options) => {
      if (options?.due) this.#due.at = 0
      this.#wake.signal()
    })
  }

  onRevoked(callback: (partitions: readonly string[]) => void): void {
    this.#revoked = callback
  }

  get isChanging(): boolean {
    return this.#leases.isChanging || !this.#leases.mayRun
  }

  async receive({ max, waitMs, signal, drains }: ReceiveParams): Promise<readonly Delivery[]> {
    if (drains) {
      this.#leases.forgetFree()
      this.#due.at = 0
    }
    const until = this.#parts.clock.now() + waitMs
    const ring = (): void => this.#wake.signal()
    signal.addEventListener('abort', ring)
    try {
      for (;;) {
        if (signal.aborted || this.#closed) return []
        this.#asksSince = this.#parts.clock.now()
        const found = await this.#next(max).finally(() => (this.#asksSince = null))
        if (found === null) continue
        if (found.length > 0) {
          this.#pollMs = RELAY_POLL_MS_MIN
          return found
        }
        const leftMs = until - this.#parts.clock.now()
        if (leftMs <= 0) return []
        const rung = await this.#wake.wait(Math.min(leftMs, this.#pollMs, this.#nextReturnMs()))
        this.#pollMs = rung ? RELAY_POLL_MS_MIN : Math.min(this.#pollMs * 2, RELAY_POLL_MS_MAX)
      }
    } finally {
      signal.removeEventListener('abort', ring)
    }
  }

  async ack(deliveries: readonly Delivery[]): Promise<void> {
    const sent: StoredEvent[] = []
    for (const { stored, lease, held } of deliveries as readonly OutboxDelivery[]) {
      if (!this.#leases.owns(lease)) continue
      if (held) sent.push(stored)
      else this.#windows.get(lease)?.settle(stored.seq)
    }
    if (sent.length > 0 && (await this.#due.settle(sent))) this.#wake.signal()
    this.#flushSoon()
  }

  async giveBack(deliveries: readonly Delivery[], { delayMs }: { readonly delayMs: number }): Promise<void> {
    if (this.#closed) return
    const at = this.#parts.clock.now() + delayMs
    const { source } = this.#parts
    for (const { stored, lease, held, delivered } of deliveries as readonly OutboxDelivery[]) {
      if (!this.#leases.owns(lease)) continue
      const again = { lease, held, delivered: delivered + 1, source }
      this.#returned.push({ delivery: new OutboxDelivery(stored, again), at })
    }
    this.#wake.signal()
  }

  orphans(deliveries: readonly Delivery[]): Promise<readonly Delivery[]> {
    const parts = { ...this.#parts, destination: this.#destination, windows: this.#windows, holds: this.#holds }
    return orphansOf(parts, deliveries as readonly OutboxDelivery[])
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#unsubscribe()
    this.#wake.signal()
    await this.#flush()
    await this.#leases.stop()
  }

  /** Null: all events that were found are held or cancelled, and more may wait behind them. */
  async #next(max: number): Promise<OutboxDelivery[] | null> {
    await this.#tend()
    this.#asksSince = this.#parts.clock.now()
    // Past half a lease without a heartbeat another process may be about to take over.
    if (!this.#leases.mayRun) return []
    const again = this.#takeReturned(max)
    if (again.length > 0) return again
    const due = await this.#takeDue(max)
    this.#asksSince = this.#parts.clock.now()
    const found = due.length > 0 ? due : await this.#read(max)
    return found.length === 0 && this.#due.at === 0 ? null : found
  }

  /** Updates the windows: a lost shard's window is dropped, and a new shard's window begins at its cursor. */
  async #tend(): Promise<void> {
    await this.#leases.tend()
    const lost: string[] = []
    for (const shard of this.#windows.keys()) {
      if (this.#leases.owns(shard)) continue
      this.#windows.delete(shard)
      this.#doubtful.delete(shard)
      lost.push(String(shard.shard))
    }
    if (lost.length > 0) {
      const gone = new Set(lost)
      this.#returned = this.#returned.filter(({ delivery }) => !gone.has(String(delivery.stored.shard)))
      this.#holds = this.#holds.filter(({ shard }) => !gone.has(String(shard)))
      this.#due.releaseLost()
      this.#revoked(lost)
    }
    const fresh = [...this.#leases.shards.values()].filter((shard) => !this.#windows.has(shard))
    if (fresh.length === 0) return
    // Announce before the delivery, so that the next owner knows that events were under way.
    const acks = fresh.map((shard) => intent(shard, UNDER_WAY, 1))
    const acked = await this.#parts.outbox.ack({ destination: this.#destination, acks, hold: [] })
    const ours = new Set(acked.ours)
    for (const shard of fresh) {
      if (!ours.has(shard.shard)) {
        this.#leases.drop([shard])
        continue
      }
      this.#windows.set(shard, new ShardWindow(shard))
      if (shard.suspect) this.#doubtful.set(shard, REDELIVERED_MAX)
    }
    this.#due.at = 0
  }

  #takeReturned(max: number): OutboxDelivery[] {
    if (this.#returned.length === 0) return []
    const now = this.#parts.clock.now()
    const due = this.#returned.filter(({ at }) => at <= now).slice(0, max)
    if (due.length === 0) return []
    const taken = new Set(due)
    this.#returned = this.#returned.filter((returned) => !taken.has(returned))
    // Deliver them in their order, and not in the order of their return.
    return due.map(({ delivery }) => delivery).sort((a, b) => a.stored.seq - b.stored.seq)
  }

  async #takeDue(max: number): Promise<OutboxDelivery[]> {
    const { source } = this.#parts
    const returned = new Set(this.#returned.map(({ delivery }) => delivery.stored.seq))
    return (await this.#due.next([...this.#windows.keys()], max, returned)).map(({ event, lease }) => {
      const doubtful = (this.#doubtful.get(lease) ?? 0) > 0
      return new OutboxDelivery(event, { lease, held: true, delivered: doubtful ? 2 : 1, source })
    })
  }

  async #read(max: number): Promise<OutboxDelivery[]> {
    const { outbox } = this.#parts
    const all = [...this.#windows.values()]
    const inHand = all.reduce((sum, { bytes }) => sum + bytes, 0)
    const windows = all.filter(({ size, bytes }) => size < WINDOW_MAX && bytes < WINDOW_BYTES_MAX)
    // Without any shard, the read tells whether one is free.
    if (windows.length < Math.min(1, all.length) || inHand >= CONSUMER_BYTES_MAX) return []
    // Begin with another shard each time, because a full batch cuts off the last ones.
    const turn = this.#turn++ % Math.max(1, windows.length)
    const turned = [...windows.slice(turn), ...windows.slice(0, turn)]
    const bytes = Math.min(RELAY_BATCH_BYTES, CONSUMER_BYTES_MAX - inHand)
    const limit = this.#size.limit(max, bytes)
    const perShard = Math.max(8, Math.ceil((limit * 2) / Math.max(1, turned.length)))
    const read = await outbox.read({
      destination: this.#destination,
      from: turned.map(({ shard }) => ({ shard: shard.shard, cursor: shard.readTo, segment: shard.readFrom })),
      perShard,
      limit,
      bytes,
      ...this.#seals.known,
    })
    const { cut, free } = read
    const events = await this.#seals.trusted(read)
    this.#size.learn(events)
    if (free) this.#leases.sawFree()
    const counts = new Map<number, number>()
    const found: OutboxDelivery[] = []
    for (const [index, stored] of events.entries()) {
      if (events[index + 1]?.shard !== stored.shard) this.#windowOf(stored.shard)?.shard.readUpTo(stored)
      counts.set(stored.shard, (counts.get(stored.shard) ?? 0) + 1)
      const delivery = this.#take(stored)
      if (delivery) found.push(delivery)
    }
    const through = cut ? [] : turned.map(({ shard }) => shard).filter((of) => (counts.get(of.shard) ?? 0) < perShard)
    this.#seals.learn(read, through)
    if (this.#holds.length > 0) await this.#flush()
    return found
  }

  #take(stored: StoredEvent): OutboxDelivery | null {
    const window = this.#windowOf(stored.shard)
    if (!window) return null
    const { shard } = window
    window.add(stored)
    const doubts = this.#doubtful.get(shard) ?? 0
    if (doubts > 0) this.#doubtful.set(shard, doubts - 1)
    const delivery = new OutboxDelivery(stored, {
      lease: shard,
      held: false,
      delivered: doubts > 0 ? 2 : 1,
      source: this.#parts.source,
    })
    if (isErasedEvent(stored)) {
      window.settle(stored.seq)
      // More events may wait behind this one.
      this.#due.at = 0
      this.#flushSoon()
      return null
    }
    const notBefore = delivery.headers['notbefore'] === undefined ? undefined : notBeforeOf(delivery.headers)
    if (notBefore === undefined) return delivery
    // The event is not due yet, so it is held, with the cursor that passes it.
    this.#holds.push(delayed(stored, notBefore))
    window.settle(stored.seq)
    return null
  }

  #windowOf(shard: number): ShardWindow | undefined {
    const owned = this.#leases.shards.get(shard)
    return owned && this.#windows.get(owned)
  }

  #nextReturnMs(): number {
    const now = this.#parts.clock.now()
    let ms = Math.max(1, this.#due.at - now)
    for (const { at } of this.#returned) ms = Math.min(ms, Math.max(1, at - now))
    return ms
  }

  #flushSoon(): void {
    if (this.#flushArmed) return
    this.#flushArmed = true
    this.#parts.clock.after(FLUSH_MS, () => {
      this.#flushArmed = false
      void this.#flush()
    })
  }

  /** A failed flush is tried again, and the events that were read stay. */
  #flush(): Promise<void> {
    return this.#flushing.run().catch((error: unknown) => this.#troubled(error))
  }

  async #flushNow(): Promise<void> {
    const hold = this.#holds
    const holding = new Set(hold.map(({ shard }) => shard))
    const windows = [...this.#windows.values()].filter(
      ({ dirty, shard }) => this.#leases.owns(shard) && (dirty || holding.has(shard.shard)),
    )
    if (windows.length === 0) return
    const acks = windows.map((window) => {
      const passed = window.acks()
      return passed.length > 0 ? passed : [intent(window.shard, UNDER_WAY, 1)]
    })
    this.#holds = []
    try {
      const write = { destination: this.#destination, acks: acks.flat(), hold }
      const ours = await this.#leases.told(write.acks, (server) => this.#parts.outbox.ack({ ...write, server }))
      for (const [index, window] of windows.entries()) {
        const last = acks[index]?.at(-1)
        if (last && ours.has(last.shard)) window.passed(last)
        else this.#leases.drop([window.shard])
      }
    } catch (error) {
      this.#holds = [...hold, ...this.#holds]
      throw error
    }
    if (hold.length > 0) this.#due.at = 0
    this.#wake.signal()
  }

  #troubled(error: unknown): void {
    this.#parts.observe({ kind: 'troubled', task: 'consumer', error })
    if (!this.#closed) this.#flushSoon()
  }
}
