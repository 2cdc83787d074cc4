import { isOnceError } from '../../errors.ts'
import { SHARDS } from '../../limits.ts'
import { shardOf } from '../../outbox/publisher.ts'
import { uuidOf } from '../../key/uuid.ts'
import { sha256Hex } from '../../platform/sha256.ts'
import type { EventPlace, HeldEvent, HoldParams, Outbox, ShardState, StoredEvent } from '../../store/outbox.ts'
import type { ParkedEvent } from '../../store/parked.ts'
import type { EventRow } from '../../store/store.ts'
import { claimOf, completing, LEASE_MS, win } from '../contract/make.ts'
import type { SqlSubject } from '../contract/subject.ts'
import { pause, SHORT_MS } from './keys.ts'
import { AGGREGATES, RELAYS } from './outbox-script.ts'
import type { OutboxOp } from './outbox-script.ts'

const ALL = 1_000_000
const EPOCH = '2000-01-01T00:00:00.000Z'

/**
 * Plays a script of relays on one store and reports the results. It names events by their names and shards by their
 * aggregates.
 */
export class OutboxPlayer {
  private readonly subject: SqlSubject
  private readonly outbox: Outbox
  private readonly prefix: string
  private readonly names = new Map<string, string>()
  private readonly cursors = new Map<number, { cursor: number; segment: number }>()
  private readonly leases: ShardState[][] = Array.from({ length: RELAYS }, () => [])
  private readonly held: (readonly HeldEvent[])[] = Array.from({ length: RELAYS }, () => [])
  private published = 0

  constructor(subject: SqlSubject, prefix: string) {
    this.subject = subject
    this.outbox = subject.store.outbox
    this.prefix = prefix
  }

  /** Starts after the events that other scripts left in these shards. */
  async open(): Promise<void> {
    await this.outbox.open({ destination: this.prefix })
    for (const shard of this.shards()) {
      const from = [{ shard, cursor: 0, segment: 0 }]
      const { events } = await this.outbox.read({ destination: this.prefix, from, perShard: ALL, limit: ALL })
      const last = events.at(-1)
      this.cursors.set(shard, { cursor: last?.seq ?? 0, segment: last?.segment ?? 0 })
    }
  }

  async play(op: OutboxOp): Promise<unknown> {
    try {
      return (await this.perform(op)) ?? 'nothing'
    } catch (error) {
      return { error: isOnceError(error) ? error.code : 'raw' }
    }
  }

  letGo(): Promise<void> {
    return Promise.resolve()
  }

  async state(): Promise<unknown> {
    const { destination } = this
    for (const [relay, leases] of this.leases.entries())
      await this.outbox.release({ destination, relay: this.relay(relay), leases, leaving: true })
    const leased = await this.outbox.lease({ destination, relay: this.relay(9), leaseMs: LEASE_MS, limit: SHARDS })
    const due = await this.outbox.due({ destination, shards: this.shards(), limit: 100, behind: 100 })
    const parked = (await this.parked()).map((event) => this.parkedOf(event))
    return { parked, leased: this.told(leased), due: due.events.map((event) => this.heldOf(event)).sort(byName) }
  }

  private get destination(): string {
    return this.prefix
  }

  private perform(op: OutboxOp): Promise<unknown> | null {
    switch (op.do) {
      case 'publish':
        return this.publish(op)
      case 'lease':
        return this.lease(op)
      case 'beat':
        return this.beat(op)
      case 'release':
        return this.release(op)
      case 'read':
        return this.unsent(op.aggregate, op.limit).then((events) => events.map((event) => this.name(event)))
      case 'ack':
        return this.ack(op)
      case 'due':
        return this.due(op)
      case 'tryHeld':
        return this.tryHeld(op)
      case 'settleHeld':
        return this.settleHeld(op)
      case 'unpark':
        return this.unpark(op)
      case 'resend':
        return this.resend(op.aggregate)
      default:
        return this.outbox.destinations().then((all) => all.filter((name) => name === this.prefix))
    }
  }

  private async publish({ aggregate, events: count, commits }: Extract<OutboxOp, { do: 'publish' }>): Promise<unknown> {
    const claim = claimOf(`${this.prefix} ${++this.published}`)
    const { session, claimed } = await win(this.subject.store, claim)
    const events = Array.from({ length: count }, (_, n) => this.event(aggregate, `${this.published}.${n}`))
    if (commits) return session.complete({ ...completing(claim, claimed, '1'), events })
    await session.append(events)
    await session.rollback()
    return 'rolled back'
  }

  private async lease({ relay, lapses }: Extract<OutboxOp, { do: 'lease' }>): Promise<unknown> {
    const leaseMs = lapses ? SHORT_MS : LEASE_MS
    const { destination } = this
    const leased = await this.outbox.lease({ destination, relay: this.relay(relay), leaseMs, limit: SHARDS })
    await pause()
    if (leased.length > 0) this.leases[relay] = [...leased]
    return this.told(leased)
  }

  private async beat({ relay, lapses }: Extract<OutboxOp, { do: 'beat' }>): Promise<unknown> {
    const { destination } = this
    const leaseMs = lapses ? SHORT_MS : LEASE_MS
    const leases = this.leases[relay]!
    const { relays, ours, due } = await this.outbox.beat({ destination, relay: this.relay(relay), leaseMs, leases })
    await pause()
    // The number of free shards is left out, because each store may count it before or after this heartbeat. Relays
    // that lapse within a millisecond may lapse before they are counted.
    return { ours: ours.length, due, ...(lapses ? {} : { relays }) }
  }

  private async release({ relay, leaving }: Extract<OutboxOp, { do: 'release' }>): Promise<unknown> {
    const leases = this.leases[relay]!
    await this.outbox.release({ destination: this.destination, relay: this.relay(relay), leases, leaving })
    return 'released'
  }

  private async ack(op: Extract<OutboxOp, { do: 'ack' }>): Promise<unknown> {
    const { relay, aggregate, passes, holds, due, trying } = op
    const shard = shardOf(this.aggregate(aggregate))
    const lease = this.leases[relay]!.find((of) => of.shard === shard)
    const events = await this.unsent(null, 100, shard)
    const passed = events.slice(0, passes)
    const last = passed.at(-1)
    if (lease === undefined || last === undefined) return null
    const { token } = lease
    const tryingTo = trying ? (events.at(-1)?.seq ?? null) : null
    const counted = passed.filter(({ segment }) => segment === last.segment).length
    const acks = [{ shard, token, cursor: last.seq, segment: last.segment, counted, tryingTo, attempt: trying ? 1 : 0 }]
    const hold = holds === null ? [] : [this.holding(passed[0]!, holds, due)]
    const acked = await this.outbox.ack({ destination: this.destination, acks, hold })
    if (acked.ours.includes(shard)) this.cursors.set(shard, { cursor: last.seq, segment: last.segment })
    return { ours: acked.ours.length, parked: acked.parked.length, passed: passed.map((event) => this.name(event)) }
  }

  /** Asks for all due events, because their order differs by microseconds. */
  private async due({ relay, behind }: Extract<OutboxOp, { do: 'due' }>): Promise<unknown> {
    const params = { destination: this.destination, shards: this.shards(), limit: 100, behind }
    const { events: found, nextInMs } = await this.outbox.due(params)
    const events = found.toSorted((a, b) =>
      a.aggregateId === b.aggregateId ? 0 : a.aggregateId < b.aggregateId ? -1 : 1,
    )
    this.held[relay] = events
    return { events: events.map((event) => this.heldOf(event)), next: nextInMs !== null }
  }

  private async tryHeld({ relay, tried, due }: Extract<OutboxOp, { do: 'tryHeld' }>): Promise<unknown> {
    const leases = this.leases[relay]!
    const events = this.held[relay]!.map((event) => ({ ...placeOf(event), tried, dueInMs: due ? 0 : null }))
    if (events.length === 0) return null
    return (await this.outbox.tryHeld({ destination: this.destination, leases, events })).length
  }

  private async settleHeld({
    relay,
    verdict,
    parks,
    released,
  }: Extract<OutboxOp, { do: 'settleHeld' }>): Promise<unknown> {
    const [head] = this.held[relay]!
    if (head === undefined) return null
    this.held[relay] = []
    const { shard, aggregateId } = head
    const changes = verdict === 'waiting' || verdict === 'parked' || verdict === 'skipped'
    const settled = await this.outbox.settleHeld({
      destination: this.destination,
      leases: this.leases[relay]!,
      sent: verdict === 'sent' ? [placeOf(head)] : [],
      changed: changes ? [this.holding(head, verdict, true)] : [],
      kept: verdict === 'kept' ? [{ ...placeOf(head), tried: 0 }] : [],
      park: verdict === 'parked' && parks ? [{ shard, aggregateId }] : [],
      touched: [{ shard, aggregateId }],
      released: released ? [{ shard, aggregateId }] : [],
    })
    const blocked = settled.blocked.map(({ aggregateId: id, parked }) => `${this.short(id)} ${parked}`)
    return { ours: settled.ours.length, parked: settled.parked.length, blocked: blocked.sort() }
  }

  private async unpark({ aggregate, release, skips, limit }: Extract<OutboxOp, { do: 'unpark' }>): Promise<unknown> {
    const aggregateId = this.aggregate(aggregate)
    const { destination } = this
    const before = await this.parked(aggregateId)
    const skip = skips ? before.slice(0, 1).map(({ seq }) => seq) : []
    const params = { destination, shard: shardOf(aggregateId), aggregateIds: [aggregateId], release, skip, limit }
    const settled = await this.outbox.parked?.settle(params)
    const lines = await this.outbox.parked?.lines({ destination, aggregateId, after: null, limit: 10 })
    return { settled, lines: lines?.map(({ head }) => head !== null), before: before.map((of) => this.parkedOf(of)) }
  }

  private async parked(aggregateId: string | null = null): Promise<readonly ParkedEvent[]> {
    const any = { destination: this.destination, aggregateId, id: null, after: 0, limit: 100 }
    return (await this.outbox.parked?.list(any)) ?? []
  }

  private parkedOf({ id, aggregateId, attempts, reason }: ParkedEvent): unknown {
    return { name: this.names.get(id) ?? id, of: this.short(aggregateId), attempts, reason }
  }

  private resend(aggregate: number | null): Promise<number> {
    const aggregateId = aggregate === null ? null : this.aggregate(aggregate)
    // Other scripts share the database, so the type restricts the resend to events of this script.
    const type = this.prefix
    return this.outbox.resend({ destination: this.destination, since: EPOCH, until: null, type, aggregateId })
  }

  private holding(event: StoredEvent, state: HoldParams['state'], due: boolean): HoldParams {
    const { shard, seq, aggregateId } = event
    const waits = state === 'waiting' || state === 'delayed'
    const notBefore = state === 'delayed' ? EPOCH : null
    const dueInMs = state === 'waiting' ? (due ? 0 : LEASE_MS) : null
    const reason = waits ? null : 'no'
    return { shard, seq, aggregateId, state, attempts: waits ? 0 : 1, dueInMs, notBefore, reason }
  }

  /** The events of this script behind the cursor of a shard, in order. */
  private async unsent(aggregate: number | null, limit: number, of?: number): Promise<StoredEvent[]> {
    const shard = of ?? shardOf(this.aggregate(aggregate ?? 0))
    const from = [{ shard, ...this.cursors.get(shard)! }]
    const { events } = await this.outbox.read({ destination: this.destination, from, perShard: limit, limit })
    return [...events]
  }

  private event(aggregate: number, name: string): EventRow {
    const aggregateId = this.aggregate(aggregate)
    const id = uuidOf(sha256Hex(`${this.prefix} ${name}`))
    this.names.set(id, name)
    const shard = shardOf(aggregateId)
    return { id, shard, aggregateType: 'diff', aggregateId, type: this.prefix, payload: '{"n":1}', headers: '{}' }
  }

  private told(leased: readonly ShardState[]): unknown {
    const shards = new Set(this.shards())
    const mine = leased.filter(({ shard }) => shards.has(shard)).map((of) => this.shardOf(of))
    return { leased: leased.length, mine: mine.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) }
  }

  private shardOf({ shard, cursor, tryingTo, attempt, blocked }: ShardState): unknown {
    const known = this.cursors.get(shard)!
    const waiting = blocked.map(({ aggregateId, parked }) => `${this.short(aggregateId)} ${parked}`).sort()
    const place = this.shards().indexOf(shard)
    return { place, behind: cursor !== 0 && cursor === known.cursor, trying: tryingTo !== null, attempt, waiting }
  }

  private heldOf(event: HeldEvent): unknown {
    const { state, attempts, tried, resend } = event
    return { name: this.name(event), state, attempts, tried, resent: resend > 0 }
  }

  private name({ id }: StoredEvent): string {
    return this.names.get(id) ?? id
  }

  private short(aggregateId: string): string {
    return aggregateId.slice(this.prefix.length)
  }

  private aggregate(n: number): string {
    return `${this.prefix}/${n}`
  }

  private relay(n: number): string {
    return uuidOf(sha256Hex(`${this.prefix} relay ${n}`))
  }

  private shards(): number[] {
    return [...new Set(Array.from({ length: AGGREGATES }, (_, n) => shardOf(this.aggregate(n))))]
  }
}

function placeOf({ shard, seq }: EventPlace): EventPlace {
  return { shard, seq }
}

function byName(a: unknown, b: unknown): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1
}
