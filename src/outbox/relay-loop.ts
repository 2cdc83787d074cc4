import { RELAY_DUE_BEHIND, RELAY_DUE_HEADS, RELAY_POLL_MS_MAX, RELAY_POLL_MS_MIN } from '../limits.ts'
import { sleep } from '../platform/clock.ts'
import { backoffMs } from './backoff.ts'
import { acksOf, endOf, remains, sort, type Batch } from './batch.ts'
import type { Bell } from './bell.ts'
import { sendDue } from './due.ts'
import { Keeper } from './keeper.ts'
import { intent, Ledger } from './ledger.ts'
import type { LoopState } from './loop-state.ts'
import { Reading, stillOurs } from './reading.ts'
import type { RelayParts } from './relay-parts.ts'
import { Sender } from './sender.ts'
import { suspectOf, trySuspect, type Tools } from './suspects.ts'

/** What runs once does not wait for a sink that stays out of order. */
const SINK_TRIES_ONCE = 3
const EMPTY: Batch = { events: [], ends: new Map() }

/**
 * Read, send, acknowledge; the next batch is read while this one is sent, and announced with its acknowledgement. Only
 * this loop touches cursors and held events, one step after the other.
 */
export class RelayLoop {
  readonly #parts: RelayParts
  readonly #state: LoopState
  readonly #bell: Bell
  readonly #keeper: Keeper
  readonly #reading: Reading
  readonly #sender: Sender
  readonly #tools: Tools
  #ahead: Batch | null = null
  #dueAt = 0
  #readAt = 0
  #pollMs = RELAY_POLL_MS_MIN
  #troubles = 0

  constructor(parts: RelayParts, state: LoopState, bell: Bell) {
    this.#parts = parts
    this.#state = state
    this.#bell = bell
    const { outbox, clock, observe, relay, leaseMs, sink } = parts
    // A heartbeat is no news: an idle relay goes on looking as rarely as before.
    const tell = (): void => bell.nudge()
    this.#keeper = new Keeper({ outbox, clock, observe, destination: sink.name, relay, leaseMs, tell })
    this.#reading = new Reading(outbox, sink.name, this.#keeper)
    this.#sender = new Sender(parts, this.#keeper, bell, state.once ? SINK_TRIES_ONCE : Infinity)
    const ledger = new Ledger(parts, this.#keeper, bell, state)
    this.#tools = { parts, keeper: this.#keeper, reading: this.#reading, sender: this.#sender, ledger, state }
  }

  get sent(): number {
    return this.#tools.ledger.sent
  }

  lookForDue(): void {
    this.#dueAt = 0
  }

  start(): Promise<void> {
    return this.#keeper.start()
  }

  async run(): Promise<void> {
    try {
      while (!this.#state.stopping) {
        try {
          if (!(await this.#turn())) break
          this.#troubles = 0
        } catch (error) {
          if (this.#state.once) throw error
          await this.#rest(error)
        }
      }
    } finally {
      await this.#keeper.stop().catch((error: unknown) => this.#trouble(error))
    }
  }

  /** False: nothing is left, and nobody waits for more. */
  async #turn(): Promise<boolean> {
    if (this.#state.paused || !this.#keeper.mayRun) {
      await this.#bell.wait(RELAY_POLL_MS_MAX)
      return true
    }
    // What their last owner held comes with the shards.
    if (await this.#keeper.tend()) this.#dueAt = 0
    // Somebody else set an event aside: a resend, or an operator.
    if (this.#keeper.tookDue()) this.#dueAt = 0
    const suspect = suspectOf(this.#keeper)
    if (suspect) {
      if (!(await trySuspect(suspect, this.#tools))) this.#abandon(EMPTY)
      this.#dueAt = 0
    }
    if (this.#parts.clock.now() >= this.#dueAt && this.#keeper.shards.size > 0) await this.#sendDue()
    const batch = stillOurs(this.#ahead ?? (await this.#read()), this.#keeper)
    this.#ahead = null
    if (batch.events.length > 0) {
      this.#pollMs = RELAY_POLL_MS_MIN
      await this.#pass(batch)
      return true
    }
    return suspect !== undefined || this.#idle()
  }

  #read(): Promise<Batch> {
    this.#readAt = this.#parts.clock.now()
    return this.#reading.next()
  }

  async #idle(): Promise<boolean> {
    const { clock } = this.#parts
    // Without a shard nothing is due: asking again at once would be asking without end.
    const untilDueMs = this.#keeper.shards.size === 0 ? Infinity : this.#dueAt - clock.now()
    if (untilDueMs <= 0) return true
    this.#state.idle()
    if (this.#state.once) return false
    const woken = await this.#bell.wait(Math.min(this.#pollMs, Math.max(1, untilDueMs)))
    // Many commits wake us many times: a few milliseconds make one batch of them.
    const early = this.#readAt + RELAY_POLL_MS_MIN - clock.now()
    if (woken && early > 0 && !this.#state.stopping) await sleep(clock, early)
    this.#pollMs = woken ? RELAY_POLL_MS_MIN : Math.min(RELAY_POLL_MS_MAX, this.#pollMs * 2)
    return true
  }

  /** One batch: announced, sent, acknowledged together with the announcement of the next. */
  async #pass(batch: Batch): Promise<void> {
    const fresh = [...batch.ends].filter(([shard]) => shard.fresh)
    if (fresh.length > 0) {
      const { ours } = await this.#tools.ledger.ack(
        fresh.map(([shard, ends]) => intent(shard, endOf(ends), 1)),
        [],
      )
      for (const [shard] of fresh) if (ours.has(shard.shard)) shard.fresh = false
    }
    const sorted = sort(stillOurs(batch, this.#keeper), this.#keeper.shards, this.#parts.sink, this.#parts.source)
    const ahead = this.#read().catch((error: unknown) => {
      this.#trouble(error)
      return null
    })
    const delivered = await this.#sender.deliver(sorted.delivery, this.#state)
    const next = await ahead
    if (delivered !== 'done') {
      this.#abandon(batch)
      return
    }
    const { hold, blocks } = remains(this.#parts, sorted.delivery)
    const held = [...sorted.held, ...hold]
    const acks = acksOf(stillOurs(batch, this.#keeper), next)
    const { ours, parked } = await this.#tools.ledger.ack(acks, held)
    for (const ack of acks) if (ours.has(ack.shard)) this.#keeper.shards.get(ack.shard)?.advance(ack)
    for (const of of blocks) this.#keeper.shards.get(of.shard)?.blocked.set(of.aggregateId, of.parked)
    if (held.length > 0) this.#dueAt = 0
    this.#ahead = next
    this.#tools.ledger.tell(sorted.delivery.sent, held, parked)
  }

  /** Everything from the cursors on is read again. */
  #abandon(batch: Batch): void {
    for (const shard of this.#keeper.shards.values()) shard.rewind()
    for (const shard of batch.ends.keys()) shard.rewind()
    this.#ahead = null
  }

  async #sendDue(): Promise<void> {
    const nextInMs = await sendDue(this.#tools, { limit: RELAY_DUE_HEADS, behind: RELAY_DUE_BEHIND })
    this.#dueAt = nextInMs === null ? Infinity : this.#parts.clock.now() + nextInMs
  }

  /** Something failed on our side: everything from the cursors on is read again after a while. */
  async #rest(error: unknown): Promise<void> {
    this.#trouble(error)
    this.#abandon(EMPTY)
    await this.#bell.wait(backoffMs(this.#parts.random, ++this.#troubles))
  }

  #trouble(error: unknown): void {
    this.#parts.observe({ kind: 'troubled', task: 'relay', error })
  }
}
