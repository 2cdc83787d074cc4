import type { HeldRow, SentEventRow } from '../../store/memory/database/rows.ts'
import { aggregateOf, nameOf } from './outbox-plan.ts'
import type { EventData, EventType } from './outbox-plan.ts'
import type { Plan } from './plan.ts'
import { tagOf } from './readers.ts'
import type { CommittedEvent } from './trace.ts'

export type Publish = (type: EventType, data: EventData, options?: { notBefore?: Date }) => Promise<string>

/** Tracks the events that were committed to the outbox, and which of them have not arrived yet. */
export class SimOutbox {
  /** Events that are committed, but neither accepted by the broker nor parked. */
  readonly pending: Set<string> = new Set()
  committed = 0
  private readonly bySeq = new Map<number, string>()
  private readonly byId = new Map<string, string>()
  /** Events that arrived, but that the consumer has neither applied nor parked. */
  readonly unread: Set<string> = new Set()
  private readonly read = new Set<string>()
  /** The events that each reader has applied. */
  readonly applied: Set<string> = new Set()
  private readonly arrived = new Set<string>()
  private readonly only: readonly EventType[] | null

  /** `only` lists the types that relays send, or is null for every type. */
  constructor(only: readonly EventType[] | null) {
    this.only = only
  }

  /** Publishes the events of one execution in order. */
  publish(publish: Publish, { service, key, events }: Plan, exec: number, nowMs: number): void {
    for (const [ordinal, { type, aggregate, temper, taste, delayMs }] of events.entries()) {
      const data: EventData = { type, service, aggregate, key, exec, ordinal, temper, taste }
      const options = delayMs === 0 ? {} : { notBefore: new Date(nowMs + delayMs) }
      // An invalid event fails the operation, not this call.
      publish(type, data, options).catch(() => undefined)
    }
  }

  commit(row: SentEventRow): CommittedEvent {
    const data = JSON.parse(row.payload) as EventData
    const name = nameOf(data)
    this.committed += 1
    this.bySeq.set(row.seq, name)
    this.byId.set(row.id, name)
    const unwanted = this.only !== null && !this.only.includes(data.type)
    if (!unwanted && !this.arrived.has(name)) this.pending.add(name)
    const delayed = row.headers.includes('"notbefore"')
    return {
      event: name,
      key: data.key,
      exec: data.exec,
      aggregate: aggregateOf(data),
      shard: row.shard,
      seq: row.seq,
      delayed,
      unwanted,
    }
  }

  /** A cancelled event will never be sent, so it is no longer pending. */
  cancelled(id: string, readers: readonly string[]): string {
    const name = this.nameOfId(id)
    this.settled(name)
    for (const reader of readers) this.consumed(tagOf(reader, name))
    return name
  }

  /** The broker has accepted the event. */
  settled(name: string): void {
    this.arrived.add(name)
    this.pending.delete(name)
  }

  /** The event is in the consumers' queue. */
  sent(name: string): void {
    if (!this.read.has(name)) this.unread.add(name)
  }

  /** The consumer has applied or parked the event. */
  consumed(name: string): void {
    this.read.add(name)
    this.unread.delete(name)
  }

  hasArrived(seq: number): boolean {
    return this.arrived.has(this.nameOf(seq))
  }

  nameOfId(id: string): string {
    return this.byId.get(id) ?? id
  }

  nameOf(seq: number): string {
    return this.bySeq.get(seq) ?? `seq ${seq}`
  }

  held(seq: number, row: HeldRow | undefined): string {
    const name = this.nameOf(seq)
    if (row?.state === 'parked' || row?.state === 'skipped') this.pending.delete(name)
    else if (row !== undefined && !this.arrived.has(name)) this.pending.add(name)
    return name
  }
}
