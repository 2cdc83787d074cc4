import { RELAY_BATCH_EVENTS, RELAY_FLUSH_MS } from '../limits.ts'
import type { Ack, HoldParams, SettleHeldParams } from '../store/outbox.ts'
import type { Hand } from './hand.ts'
import { behind } from './holding.ts'
import type { Item } from './item.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { Ledger, Written } from './ledger.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Sender } from './sender.ts'
import type { Shard } from './shard.ts'
import type { Windows } from './windows.ts'

export interface RecorderParts {
  readonly parts: RelayParts
  readonly shardLeases: ShardLeases
  readonly ledger: Ledger
  readonly sender: Sender
  readonly windows: Windows
  readonly hand: Hand
}

/** The verdicts and cursors that one statement writes. */
interface Page {
  readonly shards: readonly Shard[]
  readonly acks: readonly Ack[]
  /** Held events that the cursors of this page pass. */
  readonly passed: readonly Item[]
  readonly held: readonly HoldParams[]
}

/** Records the results of events: many verdicts together, a short time after they came. */
export class Recorder {
  readonly #parts: RecorderParts
  /** Shards that have a decision or an announcement to write. */
  #touched = new Set<Shard>()
  #holds: Item[] = []
  #settled: Item[] = []
  #sent = 0
  #writtenAt = 0

  constructor(parts: RecorderParts) {
    this.#parts = parts
  }

  get isEmpty(): boolean {
    const { sender, ledger } = this.#parts
    return this.#touched.size === 0 && this.#settled.length === 0 && sender.decided === 0 && !ledger.hasBehind
  }

  /** How soon the verdicts must be written. Infinity: there are none. */
  get dueInMs(): number {
    if (this.isEmpty) return Infinity
    const { parts, sender } = this.#parts
    if (sender.isQuiet || sender.decided >= RELAY_BATCH_EVENTS / 4) return 0
    return this.#writtenAt + RELAY_FLUSH_MS - parts.clock.now()
  }

  /** An event that was decided without being sent. */
  aside(item: Item): void {
    this.#note(item)
  }

  /** No event of this shard is sent before the shard is announced. */
  announce(shard: Shard): void {
    this.#touched.add(shard)
  }

  async flush(): Promise<void> {
    const { shardLeases, parts, ledger, hand } = this.#parts
    this.#collect()
    this.#writtenAt = parts.clock.now()
    this.#holds = this.#holds.filter(({ shard }) => shardLeases.owns(shard))
    this.#settled = this.#settled.filter(({ shard }) => shardLeases.owns(shard))
    const changes = this.#holds.length > 0 || this.#settled.length > 0
    if (this.#touched.size > 0) {
      const page = this.#turnPage()
      try {
        if (page.acks.length > 0) this.#acked(page, await ledger.ack(page.acks, page.held))
        else this.#told([], [])
      } catch (error) {
        for (const shard of page.shards) this.#touched.add(shard)
        throw error
      }
    }
    // After the holds of the same aggregates were written, because the statement asks which of them still wait.
    const parked = ledger.tookBehind().filter(({ shard }) => shardLeases.shards.has(shard))
    if (this.#settled.length + parked.length > 0) await this.#settle(parked)
    // Events may be due now that were not due before.
    if (changes || parked.length > 0) hand.dueAt = 0
  }

  #collect(): void {
    for (const item of this.#parts.sender.takeDecided()) this.#note(item)
  }

  #note(item: Item): void {
    if (item.state === 'sent') this.#sent++
    if (item.held) this.#settled.push(item)
    else {
      this.#touched.add(item.shard)
      if (item.hold) this.#holds.push(item)
    }
  }

  /** Collects what must be written about the touched shards. */
  #turnPage(): Page {
    const { shardLeases, windows } = this.#parts
    const shards = [...this.#touched].filter((shard) => shardLeases.owns(shard))
    const acks = shards.flatMap((shard) => {
      const of = windows.acksOf(shard)
      return shard.fresh || of.some(({ cursor }) => cursor > shard.cursor) ? of : []
    })
    this.#touched = new Set()
    const cursors = new Map(acks.map(({ shard, cursor }) => [shard, cursor]))
    // A hold is written with the cursor that passes it, never before. The next relay sees both or neither.
    const passed = this.#holds.filter(({ stored }) => stored.seq <= (cursors.get(stored.shard) ?? 0))
    return { shards, acks, passed, held: passed.map(holdOf) }
  }

  #acked({ acks, passed, held }: Page, { ours, parked }: Written): void {
    const { shardLeases, windows, sender } = this.#parts
    for (const ack of acks) {
      const shard = shardLeases.shards.get(ack.shard)
      if (shard?.token === ack.token && ours.has(ack.shard)) windows.written(ack, shard)
    }
    const done = new Set(passed)
    this.#holds = this.#holds.filter((item) => !done.has(item))
    sender.written(passed)
    this.#told(held, parked)
  }

  /**
   * `behindParked` are events that were parked behind others of their aggregate. An operator may have released those
   * others meanwhile without seeing these, so this statement puts them in line again.
   */
  async #settle(behindParked: readonly HoldParams[]): Promise<void> {
    const { parts, shardLeases, ledger, hand, sender } = this.#parts
    const items = this.#settled
    this.#settled = []
    const outcome = outcomeOf(items, behindParked)
    const numbers = new Set(outcome.touched.map(({ shard }) => shard))
    const leases = [...shardLeases.shards.values()].filter(({ shard }) => numbers.has(shard))
    try {
      // An operator may have released these aggregates while this relay parked more events behind them.
      const released = outcome.touched.filter(({ shard, aggregateId }) =>
        shardLeases.shards.get(shard)?.blocked.get(aggregateId),
      )
      const { parked, blocked } = await ledger.settle({ destination: parts.sink.name, leases, ...outcome, released })
      this.#collect()
      for (const { shard, aggregateId } of outcome.touched) shardLeases.shards.get(shard)?.blocked.delete(aggregateId)
      for (const of of blocked) shardLeases.shards.get(of.shard)?.blocked.set(of.aggregateId, of.parked)
      this.#unblock(new Set(outcome.touched.map(({ aggregateId }) => aggregateId)))
      this.#told(outcome.changed, parked)
    } finally {
      hand.release(items)
      sender.written(items)
    }
  }

  /** Unwritten events that waited behind these aggregates can be sent, unless another event failed before them. */
  #unblock(aggregates: ReadonlySet<string>): void {
    const unwritten = this.#holds.filter(({ stored }) => aggregates.has(stored.aggregateId))
    for (const { shard, stored, hold } of unwritten) {
      if (hold?.state === 'waiting' && isBehind(hold)) continue
      if (hold?.state === 'waiting' || hold?.state === 'parked') {
        if (!shard.blocked.has(stored.aggregateId)) shard.blocked.set(stored.aggregateId, hold.state === 'parked')
      }
    }
    const again = unwritten.filter(
      ({ shard, stored, hold }) => hold && isBehind(hold) && !shard.blocked.has(stored.aggregateId),
    )
    if (again.length === 0) return
    const freed = new Set(again)
    this.#holds = this.#holds.filter((item) => !freed.has(item))
    for (const item of again) {
      item.state = 'open'
      item.hold = null
    }
    this.#parts.sender.add(again)
  }

  #told(held: readonly HoldParams[], parked: Parameters<Ledger['tell']>[2]): void {
    const sent = this.#sent
    this.#sent = 0
    this.#parts.ledger.tell(sent, held, parked)
  }
}

/** The event waits only for an earlier event of its aggregate. */
function isBehind({ state, reason, dueInMs, notBefore }: HoldParams): boolean {
  return (state === 'waiting' || state === 'parked') && reason === null && dueInMs === null && notBefore === null
}

/** The hold as it is now. The event before it may have been parked meanwhile. */
function holdOf({ stored, shard, hold }: Item): HoldParams {
  const of = hold as HoldParams
  return isBehind(of) ? behind(stored, shard.blocked.get(stored.aggregateId) ?? of.state === 'parked') : of
}

type Outcome = Pick<SettleHeldParams, 'sent' | 'changed' | 'kept' | 'park' | 'touched'>

function outcomeOf(items: readonly Item[], behindParked: readonly HoldParams[]): Outcome {
  const aggregates = new Map<string, { shard: number; aggregateId: string }>(
    behindParked.map(({ shard, aggregateId }) => [aggregateId, { shard, aggregateId }]),
  )
  const outcome = { sent: [] as Item['stored'][], changed: [] as HoldParams[], kept: [] as NonNullable<Item['held']>[] }
  const park: { shard: number; aggregateId: string }[] = []
  for (const { stored, state, hold, held } of items) {
    const { shard, aggregateId } = stored
    aggregates.set(aggregateId, { shard, aggregateId })
    if (state === 'sent' || state === 'passed') outcome.sent.push(stored)
    else if (hold) {
      outcome.changed.push(hold)
      if (hold.state === 'parked') park.push({ shard, aggregateId })
    } else if (held) outcome.kept.push(held)
  }
  return { ...outcome, park, touched: [...aggregates.values()] }
}
