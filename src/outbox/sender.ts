import { RELAY_PROBE_MS } from '../limits.ts'
import { Throttle } from '../platform/rate-limit.ts'
import type { Verdict } from '../sink/sink.ts'
import { Call, type CallParts, type Ended, type Round } from './call.ts'
import { Calls } from './calls.ts'
import { Circuit, SinkDown } from './circuit.ts'
import { Doubts, DOUBTS_MAX, type Doubt } from './doubt.ts'
import { behind, failed, type Failure } from './holding.ts'
import { blameNext, holdBehindSkipped, isDecided, isToBlame, type Item } from './item.ts'
import type { ShardLeases } from './shard-leases.ts'
import { Lanes } from './lanes.ts'
import { Pace } from './pace.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'
import { attemptsOf } from './tries.ts'

export interface SenderState {
  /** The relay is stopping: nothing new is handed over. */
  readonly stopping: boolean
  /** The relay no longer waits for running calls. */
  readonly overdue: boolean
  readonly paused: boolean
}

/**
 * Keeps the sink busy: it hands over events of the lanes, and decides by the verdicts as they come. An event that fails as
 * if the sink were down is in doubt. If another event is then sent, the event was at fault, and not the sink.
 */
export class Sender {
  readonly circuit: Circuit
  readonly #parts: RelayParts
  readonly #leases: ShardLeases
  readonly #state: SenderState
  readonly #changed: () => void
  readonly #pace: Pace
  readonly #throttle: Throttle
  readonly #callParts: CallParts
  readonly #calls: Calls
  #lanes = new Lanes()
  readonly #doubts: Doubts
  /** Events that were tried while the sink was down. */
  #tried: Item[] = []
  #decided: Item[] = []
  readonly #skipped = new Set<Item>()
  #sent = 0
  #alone = false
  /** Only events that are sent alone are handed over. */
  holding = false
  /** Why the circuit opened last. */
  trouble: SinkDown | undefined

  constructor(parts: RelayParts, shardLeases: ShardLeases, state: SenderState, changed: () => void) {
    this.#parts = parts
    this.#leases = shardLeases
    this.#state = state
    this.#changed = changed
    const { sink, clock, observe, tracing, leaseMs } = parts
    this.#callParts = {
      sink,
      clock,
      observe,
      tracing: tracing ?? null,
      leaseMs,
      mayRun: () => shardLeases.mayRun,
      mayBegin: () => !state.stopping,
      decide: (item, verdict, round) => this.#decide(item, verdict, round),
    }
    this.#doubts = new Doubts(clock, () => {
      this.#judge()
      this.fill()
      changed()
    })
    this.#pace = new Pace({ batch: sink.batch, leaseMs })
    this.#throttle = new Throttle(clock, parts.rate, () => this.fill())
    this.circuit = new Circuit(clock, parts.random, () => {
      this.fill()
      changed()
    })
    this.#calls = new Calls(this.circuit, sink.concurrency ?? 1)
  }

  get isQuiet(): boolean {
    return this.#calls.isQuiet
  }

  /** Whether no event waits and none is under way. */
  get isIdle(): boolean {
    return this.isQuiet && this.#lanes.isEmpty
  }

  /** Whether nothing was sent in so many rounds, and no call is under way that began before them. */
  isDown(rounds: number): boolean {
    return this.circuit.down >= rounds && this.#calls.areProbes
  }

  /** Whether no event can be handed over next. */
  get isDry(): boolean {
    return this.#lanes.isDry
  }

  get queued(): number {
    return this.#lanes.queued
  }

  get decided(): number {
    return this.#decided.length
  }

  add(items: readonly Item[]): void {
    for (const item of items) {
      // The next owner of the shard sends it.
      if (item.shard.leaving) continue
      // An earlier event of its aggregate may have failed since it was read.
      const parked = item.held ? undefined : item.shard.blocked.get(item.stored.aggregateId)
      if (parked === undefined) this.#lanes.add(item)
      else this.#leaveBehind(item, parked)
    }
    this.fill()
  }

  /** The events that were decided since the last call. */
  takeDecided(): Item[] {
    return this.#decided.splice(0)
  }

  /** The fate of these events is written. */
  written(items: readonly Item[]): void {
    if (this.#skipped.size === 0) return
    this.#dropGone(items)
    for (const item of items) if (this.#skipped.delete(item)) this.#lanes.settle(item)
    this.fill()
  }

  /** Hands over no more events of these shards. */
  drop(shards: ReadonlySet<Shard>): void {
    if (shards.size === 0) return
    this.#lanes.drop(shards)
    const tried = this.#tried.filter(({ shard }) => shards.has(shard))
    this.#tried = this.#tried.filter(({ shard }) => !shards.has(shard))
    for (const item of [...this.#doubts.take(shards).map((doubt) => doubt.item), ...tried]) this.#giveUp(item)
    this.written([...this.#skipped].filter(({ shard }) => shards.has(shard)))
  }

  /** Whether events of this shard are under way. */
  isBusyWith(shard: Shard): boolean {
    return this.#calls.areBusyWith(shard)
  }

  fill(): void {
    const { sink } = this.#parts
    const { stopping, paused } = this.#state
    const held = this.holding && !this.#alone
    if (stopping || paused || held || this.circuit.isPausing || !this.#leases.mayRun) return
    const probing = this.circuit.down > 0
    if (!probing) {
      if (this.#tried.length > 0) this.#return(this.#tried.splice(0), false)
    }
    // One at a time: an event that arrives meanwhile is tried next, and not after all that failed.
    else if (this.#lanes.isDry && this.#calls.haveRoom) this.#return(this.#tried.splice(0, 1), false)
    while (this.#calls.haveRoom) {
      const size = Math.min(this.#throttle.room(), probing ? 1 : this.#pace.size)
      const items = this.#lanes.take(size, sink.orders)
      if (items.length === 0) return
      this.#throttle.started(items.length)
      const round: Round = { no: this.circuit.round, probing, sent: this.#sent, broken: new Set() }
      const call = new Call(this.#callParts, items, round)
      this.#calls.begin(call, (ended) => this.#ended(call, ended))
      const tryAnother = (): void => {
        call.isOld = true
        this.fill()
      }
      if (probing) this.#parts.clock.after(RELAY_PROBE_MS, tryAnother)
    }
  }

  /** Ends the calls that are under way. */
  abort(): Promise<void> {
    return this.#calls.abort()
  }

  /**
   * Sends these events while nothing else is under way. The caller records their fate. Returns false if some were not
   * sent, because the relay stops, pauses or lost its lease, or because the sink is down.
   */
  async alone(items: readonly Item[], wait: () => Promise<unknown>): Promise<boolean> {
    const outside = { lanes: this.#lanes, doubts: this.#doubts.take(), tried: this.#tried, decided: this.#decided }
    const downs = this.circuit.down + DOUBTS_MAX
    this.#lanes = new Lanes()
    this.#tried = []
    this.#decided = []
    this.#alone = true
    this.add(items)
    try {
      for (;;) {
        holdBehindSkipped(items, this.#skipped)
        if (items.every(isDecided)) return true
        // The other events were dropped with their shards.
        if (this.isIdle) return false
        const { stopping, overdue, paused } = this.#state
        if (overdue) await this.abort()
        if (this.isQuiet && (stopping || paused || !this.#leases.mayRun || this.circuit.down >= downs)) return false
        this.fill()
        await wait()
      }
    } finally {
      await this.abort()
      for (const item of items) this.#skipped.delete(item)
      this.#doubts.take()
      this.#alone = false
      this.#lanes = outside.lanes
      for (const doubt of outside.doubts) this.#doubts.add(doubt)
      this.#tried = outside.tried
      this.#decided = outside.decided
    }
  }

  #ended(call: Call, ended: Ended | undefined): void {
    if (ended) this.#failed(call, ended)
    else this.#pace.took(call.items.length, this.#parts.clock.now() - call.startedAt)
    this.#judge()
    this.fill()
    this.#changed()
  }

  #failed({ items, left, round }: Call, { error, why }: Ended): void {
    if (why === 'leaseInDoubt' || why === 'stopped') return this.#return(left, true)
    this.#pace.failed()
    const [only] = left
    if (!only) return
    if (items.length === 1) return this.#doubt({ item: only, error, answered: why === 'silent' }, round)
    // It is not known which of the events is at fault, so they are sent one by one.
    this.#parts.observe({ kind: 'troubled', task: 'relay', error: new SinkDown(error) })
    this.#return(left, true)
  }

  #decide(item: Item, verdict: Verdict, round: Round): void {
    const { aggregateId } = item.stored
    if (verdict.kind === 'sent') {
      item.state = 'sent'
      this.#sent++
      this.#lanes.settle(item)
      this.#decided.push(item)
      this.#works()
    } else if (round.broken.has(aggregateId)) this.#return([item], true)
    else {
      round.broken.add(aggregateId)
      if (verdict.perhapsDown) this.#doubt({ item, error: verdict.error, answered: true }, round)
      else {
        this.#works()
        this.#fail(item, verdict)
      }
    }
  }

  /** The sink works, so the events in doubt failed by themselves. */
  #works(): void {
    if (this.circuit.down > 0) this.circuit.close()
    if (!this.#doubts.first) return
    for (const { item, error } of this.#doubts.take()) this.#fail(item, { error, retryable: true })
  }

  #doubt(doubt: Doubt, round: Round): void {
    // The sink was known to be down when this call began, so the failure says nothing new.
    if (round.no !== this.circuit.round) return void this.#tried.push(doubt.item)
    if (isToBlame(doubt.item, this.#sent)) return this.#fail(doubt.item, { error: doubt.error, retryable: true })
    this.#doubts.add(doubt)
    // Other events were sent during this call.
    if (this.#sent > round.sent) this.#works()
  }

  /** After a call: decides who is at fault, the sink or the events in doubt, or tries another event first. */
  #judge(): void {
    const { first, areAnswered, areKnown, areMany, isOverdue } = this.#doubts
    if (!first) return
    const { down } = this.circuit
    const { isDry } = this.#lanes
    const known = areAnswered && (this.#alone || areKnown)
    // It failed before while others were sent, so no other event is needed to decide.
    if (this.isQuiet && isDry && down === 0 && known) this.#works()
    else if ((isDry && (this.isQuiet || isOverdue)) || down > 0 || areMany) this.#open(first.error)
  }

  /** The sink is down, and no event is at fault. */
  #open(error: unknown): void {
    this.circuit.open()
    this.trouble = new SinkDown(error)
    this.#parts.observe({ kind: 'troubled', task: 'relay', error: this.trouble })
    // Try these after all others. Otherwise an event that is at fault would be tried for ever.
    const beside = this.#doubts.isOverdue && !this.isQuiet
    for (const { item } of this.#doubts.take()) {
      if (beside) blameNext(item)
      this.#tried.push(item)
    }
  }

  #fail(item: Item, failure: Failure): void {
    // The lane may already hold events of the next lease, which begins with this same event. They must not wait behind it.
    if (!this.#leases.owns(item.shard)) return this.#return([item], true)
    const attempts = item.held ? attemptsOf(item.held) + 1 : 1
    const hold = failed(this.#parts, item.stored, failure, attempts)
    item.state = 'aside'
    item.hold = hold
    this.#decided.push(item)
    if (hold.state === 'skipped') {
      // Its successors are sent only after the skip is written. Otherwise it could be sent after them.
      this.#skipped.add(item)
      return
    }
    const parked = hold.state === 'parked'
    item.shard.blocked.set(item.stored.aggregateId, parked)
    for (const rest of this.#lanes.fail(item, parked)) this.#leaveBehind(rest, parked)
  }

  /** An earlier event of its aggregate must be sent first. */
  #leaveBehind(item: Item, parked: boolean): void {
    item.state = 'aside'
    // A held event stays as it is. A delayed event waits in line from now on.
    if (!item.held) item.hold = behind(item.stored, parked)
    else if (item.held.state === 'delayed') item.hold = behind(item.stored, false)
    this.#decided.push(item)
  }

  /** Returns events to their lanes, because they were probably not sent. */
  #return(items: readonly Item[], first: boolean): void {
    const again: Item[] = []
    const gone = this.#dropGone(items)
    for (const item of items) {
      const parked = this.#lanes.failureOf(item)
      if (gone.has(item.shard)) this.#giveUp(item)
      else if (parked === undefined) again.push(item)
      else {
        this.#leaveBehind(item, parked)
        this.#lanes.settle(item)
      }
    }
    this.#lanes.back(again, first)
  }

  /** Drops the lanes of shards that are no longer ours: events behind these must not be sent before them. */
  #dropGone(items: readonly Item[]): ReadonlySet<Shard> {
    const gone = new Set(items.map(({ shard }) => shard).filter((shard) => !this.#leases.owns(shard) || shard.leaving))
    if (gone.size > 0) this.#lanes.drop(gone)
    return gone
  }

  #giveUp(item: Item): void {
    item.state = 'open'
    this.#lanes.settle(item)
  }
}
