import type { HeldRow, SentEventRow } from '../../store/memory/database/rows.ts'
import { aggregateOf, nameOf } from './outbox-plan.ts'
import type { EventData, EventType } from './outbox-plan.ts'
import type { Plan } from './plan.ts'
import { tagOf } from './readers.ts'
import type { CommittedEvent } from './trace.ts'

export type Publish = (type: EventType, data: EventData, options?: { notBefore?: Date }) => Promise<string>

/** What was committed to the outbox, and what of it is not yet where it belongs. */
export class SimOutbox {
  /** Committed, and neither accepted by the broker nor given up. */
  readonly pending: Set<string> = new Set()
  committed = 0
  private readonly bySeq = new Map<number, string>()
  private readonly byId = new Map<string, string>()
  /** Arrived, and neither applied nor set aside by the consumer. */
  readonly unread: Set<string> = new Set()
  private readonly read = new Set<string>()
  /** What each reader has applied. */
  readonly applied: Set<string> = new Set()
  private readonly arrived = new Set<string>()

  /** The events of one execution, in the order it publishes them. */
  publish(publish: Publish, { service, key, events }: Plan, exec: number, nowMs: number): void {
    for (const [ordinal, { type, aggregate, temper, taste, delayMs }] of events.entries()) {
      const data: EventData = { type, service, aggregate, key, exec, ordinal, temper, taste }
      const options = delayMs === 0 ? {} : { notBefore: new Date(nowMs + delayMs) }
      // What is wrong with it fails the operation, not this call.
      publish(type, data, options).catch(() => undefined)
    }
  }

  commit(row: SentEventRow): CommittedEvent {
    const data = JSON.parse(row.payload) as EventData
    const name = nameOf(data)
    this.committed += 1
    this.bySeq.set(row.seq, name)
    this.byId.set(row.id, name)
    if (!this.arrived.has(name)) this.pending.add(name)
    const delayed = row.headers.includes('"notbefore"')
    return {
      event: name,
      key: data.key,
      exec: data.exec,
      aggregate: aggregateOf(data),
      shard: row.shard,
      seq: row.seq,
      delayed,
    }
  }

  /** Nobody will send it. */
  cancelled(id: string, readers: readonly string[]): string {
    const name = this.nameOfId(id)
    this.settled(name)
    for (const reader of readers) this.consumed(tagOf(reader, name))
    return name
  }

  /** Accepted by the broker. */
  settled(name: string): void {
    this.arrived.add(name)
    this.pending.delete(name)
  }

  /** The broker's other side has it. */
  sent(name: string): void {
    if (!this.read.has(name)) this.unread.add(name)
  }

  /** Applied, or set aside. */
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
