import { RELAY_POLL_BUSY_MS, RELAY_POLL_MS_MAX, RELAY_POLL_MS_MIN, RELAY_READ_MS } from '../limits.ts'
import { pauseWhileDownMs } from './backoff.ts'
import { sort } from './batch.ts'
import type { WakeSignal } from './wake-signal.ts'
import { Hand } from './hand.ts'
import { heldItems, isDecided, type Item } from './item.ts'
import { ShardLeases } from './shard-leases.ts'
import { Ledger } from './ledger.ts'
import type { LoopState } from './loop-state.ts'
import { Reading } from './reading.ts'
import { Recorder } from './recorder.ts'
import type { RelayParts } from './relay-parts.ts'
import { Sender } from './sender.ts'
import type { HeldEvent } from '../store/outbox.ts'
import type { Shard } from './shard.ts'
import { suspectOf, trySuspect, type Tools } from './suspects.ts'
import { Windows } from './windows.ts'
import { Withdrawal } from './withdrawal.ts'

/** A drain does not wait for a sink that stays down. */
const SINK_TRIES_ONCE = 3

/**
 * Reads ahead of the sender and records what the sender decided, one step after the other. Only this loop uses the
 * database, and it never waits for the sink.
 */
export class RelayLoop {
  readonly #parts: RelayParts
  readonly #state: LoopState
  readonly #wake: WakeSignal
  readonly #leases: ShardLeases
  readonly #reading: Reading
  readonly #sender: Sender
  readonly #windows = new Windows()
  readonly #hand: Hand
  readonly #recorder: Recorder
  readonly #tools: Tools
  /** Events that were read. They are announced before the sender gets them. */
  #incoming: Item[] = []
  #known: ReadonlySet<Shard> = new Set()
  /** Shards whose decisions are all written. They are released with the next look. */
  readonly #gone = new Set<Shard>()
  readonly #withdrawal: Withdrawal
  #suspectAt = 0
  #readAt = 0
  /** The outbox was empty. The relay does not look again before this time. */
  #lookAt = 0
  /** The last look had room for every event, and found none. */
  #sawAll = false
  /** A drain began after the last look, so that look may have missed its events. */
  #asked = false
  #pollMs = RELAY_POLL_MS_MIN
  #troubles = 0
  /** When the database last answered this loop, or when its turn began. */
  #turnedAt: number

  constructor(parts: RelayParts, state: LoopState, wake: WakeSignal) {
    this.#parts = parts
    this.#state = state
    this.#wake = wake
    this.#turnedAt = parts.clock.now()
    const { outbox, clock, observe, source, relay, leaseMs, sink } = parts
    // A heartbeat brings no news. The relay looks once, and an idle relay then waits as long as before.
    const tell = (): void => {
      this.#lookAt = 0
      wake.nudge()
    }
    const shardLeases = new ShardLeases({
      outbox,
      clock,
      observe,
      source,
      destination: sink.name,
      relay,
      leaseMs,
      tell,
      asksSince: () => (wake.wokenAt === null ? null : Math.max(wake.wokenAt, this.#turnedAt)),
    })
    const ledger = new Ledger(parts, shardLeases, wake, state)
    const sender = new Sender(parts, shardLeases, state, () => this.#changed())
    const reading = new Reading(outbox, sink.name, shardLeases)
    this.#leases = shardLeases
    this.#reading = reading
    this.#sender = sender
    this.#withdrawal = new Withdrawal(parts, shardLeases, sender)
    this.#hand = new Hand(parts, shardLeases, ledger)
    this.#recorder = new Recorder({ parts, shardLeases, ledger, sender, windows: this.#windows, hand: this.#hand })
    this.#tools = { parts, shardLeases, reading, sender, ledger, wait: () => wake.wait(RELAY_POLL_BUSY_MS) }
  }

  get sent(): number {
    return this.#tools.ledger.sent
  }

  lookForDue(): void {
    this.#hand.dueAt = 0
  }

  /** Looks at least once from now on before it is idle. */
  lookOnce(): void {
    this.#asked = true
    this.#leases.forgetFree()
    this.lookForDue()
  }

  start(): Promise<void> {
    this.#turnedAt = this.#parts.clock.now()
    return this.#leases.start()
  }

  async run(): Promise<void> {
    try {
      while (!this.#state.stopping) {
        try {
          if (!(await this.#turn())) break
          this.#troubles = 0
        } catch (error) {
          if (this.#state.once) throw error
          this.#trouble(error)
          await this.#wake.pause(pauseWhileDownMs(this.#parts.random, ++this.#troubles), () => this.#state.stopping)
        }
      }
    } finally {
      await this.#end().catch((error: unknown) => this.#trouble(error))
      await this.#leases.stop().catch((error: unknown) => this.#trouble(error))
    }
  }

  /** False: nothing is left to do, and no more events are expected. */
  async #turn(): Promise<boolean> {
    const { clock } = this.#parts
    this.#turnedAt = clock.now()
    if (!this.#leases.mayRun) {
      await this.#wake.wait(RELAY_POLL_MS_MAX)
      return true
    }
    await this.#tend()
    this.#turnedAt = clock.now()
    if (this.#state.paused) {
      await this.#recorder.flush()
      if (this.#sender.isQuiet && this.#recorder.isEmpty) {
        this.#state.idle()
        if (this.#state.once) return false
      }
      await this.#wake.wait(RELAY_POLL_MS_MAX)
      return true
    }
    const suspect = clock.now() >= this.#suspectAt ? suspectOf(this.#leases) : undefined
    if (suspect) await this.#trySuspect(suspect)
    if (clock.now() >= this.#hand.dueAt && this.#leases.shards.size > 0) await this.#takeDue()
    this.#turnedAt = clock.now()
    const found = this.#wantsEvents() && (await this.#read())
    this.#turnedAt = clock.now()
    // The first events of a lease are announced before they are sent. Later events are announced with earlier decisions.
    if (this.#incoming.some(({ shard }) => shard.fresh)) await this.#recorder.flush()
    const incoming = this.#incoming
    this.#incoming = []
    this.#sender.add(incoming.filter(({ shard, state }) => state === 'open' && this.#keeps(shard)))
    if (this.#recorder.dueInMs <= 0) await this.#recorder.flush()
    if (this.#state.once && this.#sender.isDown(SINK_TRIES_ONCE)) throw this.#sender.trouble as Error
    return found || suspect !== undefined || this.#rest()
  }

  /** Follows the shards that come and go. */
  async #tend(): Promise<void> {
    const shardLeases = this.#leases
    this.#withdrawal.look((shard) => this.#windows.has(shard))
    // The held events of the last owner come with the shards.
    const ready = (shard: Shard): boolean => this.#gone.has(shard)
    if (await shardLeases.tend(ready)) this.#leased()
    // A resend or an operator set an event aside.
    if (shardLeases.tookDue()) this.#hand.dueAt = 0
    this.#forget(new Set([...this.#known].filter((shard) => !shardLeases.owns(shard))))
    this.#known = new Set(shardLeases.shards.values())
    const leaving = new Set([...this.#known].filter((shard) => shard.leaving && !this.#gone.has(shard)))
    if (leaving.size === 0) return
    await this.#letGo(leaving)
    if (await shardLeases.tend(ready)) this.#leased()
    this.#known = new Set([...this.#known, ...shardLeases.shards.values()])
  }

  /** Leased shards may have events that the last look could not see. */
  #leased(): void {
    this.#hand.dueAt = this.#lookAt = 0
    this.#sawAll = false
  }

  #forget(lost: ReadonlySet<Shard>): void {
    if (lost.size === 0) return
    for (const shard of lost) {
      this.#windows.remove(shard)
      this.#gone.delete(shard)
    }
    this.#sender.drop(lost)
    this.#hand.releaseLost()
    this.#incoming = this.#incoming.filter(({ shard }) => !lost.has(shard))
  }

  /** Records what was sent of these shards. The next owner sends the rest. */
  async #letGo(shards: ReadonlySet<Shard>): Promise<void> {
    this.#sender.drop(shards)
    const quiet = new Set([...shards].filter((shard) => !this.#sender.isBusyWith(shard)))
    if (quiet.size === 0) return
    await this.#recorder.flush()
    for (const shard of quiet) for (const item of this.#windows.setAside(shard)) this.#recorder.aside(item)
    for (const item of this.#hand.undecidedOf(quiet)) {
      item.state = 'aside'
      this.#recorder.aside(item)
    }
    await this.#recorder.flush()
    for (const shard of quiet) {
      this.#windows.remove(shard)
      this.#gone.add(shard)
    }
  }

  #trySuspect(suspect: Shard): Promise<void> {
    return this.#apart(async () => {
      if (!(await trySuspect(suspect, this.#tools))) {
        suspect.rewind()
        this.#suspectAt = this.#parts.clock.now() + RELAY_POLL_MS_MAX
      }
      this.#hand.dueAt = 0
    })
  }

  /** Runs when nothing is under way, and hands over nothing new until it is done. Does nothing if the relay stops. */
  async #apart(work: () => Promise<void>): Promise<void> {
    this.#sender.holding = true
    try {
      while (!this.#sender.isQuiet && !this.#state.stopping) await this.#wake.wait(RELAY_POLL_BUSY_MS)
      if (!this.#state.stopping) await work()
    } finally {
      this.#sender.holding = false
    }
  }

  async #takeDue(): Promise<void> {
    const { ready, alone, aside } = await this.#hand.fetch()
    for (const item of aside) this.#recorder.aside(item)
    try {
      if (aside.length > 0) await this.#recorder.flush()
    } finally {
      // These are in the hand. If the sender never got them, their aggregates would wait as long as the shard is ours.
      this.#sender.add(ready.filter(({ shard }) => this.#leases.owns(shard)))
    }
    if (alone.length > 0) await this.#apart(() => this.#sendAlone(alone))
  }

  async #sendAlone(alone: readonly HeldEvent[]): Promise<void> {
    const { shardLeases, parts, sender, wait } = this.#tools
    const items = heldItems(await this.#hand.announce(alone), shardLeases.shards, parts.source)
    try {
      await sender.alone(items, wait)
    } finally {
      // The decisions are written. Undecided events stay as they were.
      for (const item of items) {
        if (!isDecided(item)) item.state = 'aside'
        this.#recorder.aside(item)
      }
      await this.#recorder.flush()
    }
  }

  #wantsEvents(): boolean {
    const now = this.#parts.clock.now()
    if (now < this.#lookAt && !this.#asked) return false
    if (this.#sender.isDry) return true
    return this.#sender.queued < this.#reading.most && now >= this.#readAt + RELAY_READ_MS
  }

  /** True: there may be more. */
  async #read(): Promise<boolean> {
    const { clock } = this.#parts
    const most = this.#reading.most * 2
    const owned = [...this.#leases.shards.values()]
    const from = owned.filter((shard) => shard.suspect === null && !shard.leaving && this.#windows.hasRoom(shard, most))
    this.#readAt = clock.now()
    if (from.length === 0 && owned.length > 0) {
      this.#lookAt = this.#readAt + RELAY_READ_MS
      this.#sawAll = false
      return false
    }
    this.#asked = this.#sawAll = false
    const asked = this.#reading.next(from, most - this.#windows.size)
    const batch = await this.#reading.read(asked)
    this.#reading.learn(asked, batch)
    for (const item of sort(batch, this.#leases.shards, this.#parts)) {
      this.#windows.add(item)
      this.#incoming.push(item)
      if (isDecided(item)) this.#recorder.aside(item)
      if (item.shard.fresh) this.#recorder.announce(item.shard)
    }
    this.#sawAll = batch.events.length === 0
    if (!this.#sawAll) {
      this.#pollMs = RELAY_POLL_MS_MIN
      this.#lookAt = 0
      return true
    }
    this.#lookAt = clock.now() + this.#pollMs
    this.#pollMs = Math.min(this.#pollMs * 2, this.#sender.isIdle ? RELAY_POLL_MS_MAX : RELAY_POLL_BUSY_MS)
    return false
  }

  /** Waits until there is something to do. False: there will be nothing. */
  async #rest(): Promise<boolean> {
    const { clock } = this.#parts
    const now = clock.now()
    // Without a shard nothing is due, and the relay would ask again and again.
    const untilDueMs = this.#leases.shards.size === 0 ? Infinity : this.#hand.dueAt - now
    if (untilDueMs <= 0 || this.#recorder.dueInMs <= 0) return true
    const isDone = this.#sender.isIdle && this.#recorder.isEmpty && this.#sawAll && !this.#asked && this.#lookAt > now
    if (isDone && !this.#leases.isChanging) {
      this.#state.idle()
      if (this.#state.once) return false
    }
    const { isDry, queued } = this.#sender
    const soonest = this.#readAt + (isDry ? RELAY_POLL_MS_MIN : RELAY_READ_MS)
    const untilReadMs = isDry || queued < this.#reading.most ? Math.max(this.#lookAt, soonest) - now : Infinity
    const ms = Math.min(untilDueMs, untilReadMs, this.#recorder.dueInMs, RELAY_POLL_MS_MAX)
    if (await this.#wake.wait(Math.max(1, ms))) {
      this.#pollMs = RELAY_POLL_MS_MIN
      // Many commits wake the relay many times. A few milliseconds turn them into one batch.
      this.#lookAt = this.#readAt + RELAY_POLL_MS_MIN
    }
    return true
  }

  /** Waits for events that are under way, within the time limit, and records their verdicts. */
  async #end(): Promise<void> {
    while (!this.#sender.isQuiet && !this.#state.overdue) await this.#wake.wait(RELAY_POLL_BUSY_MS)
    await this.#sender.abort()
    this.#forget(new Set([...this.#known].filter((shard) => !this.#leases.owns(shard))))
    await this.#letGo(new Set(this.#leases.shards.values()))
  }

  #keeps(shard: Shard): boolean {
    return !shard.leaving && this.#leases.owns(shard)
  }

  /** A call of the sink ended. While more events wait to be sent, one turn serves the calls of a few milliseconds. */
  #changed(): void {
    if (this.#sender.isQuiet || this.#sender.isDry) this.#wake.nudge()
    else this.#wake.nudgeWithin(RELAY_POLL_MS_MIN)
  }

  #trouble(error: unknown): void {
    this.#parts.observe({ kind: 'troubled', task: 'relay', error })
  }
}
