import { passedBy, type End } from '../outbox/batch.ts'
import type { Shard } from '../outbox/shard.ts'
import type { Ack, StoredEvent } from '../store/outbox.ts'

/** An event without its payload, which is released as early as possible. */
interface Entry {
  readonly seq: number
  readonly segment: number
  readonly id: string
  readonly bytes: number
  settled: boolean
}

/** The last owner of a shard died with events under way. It is not known which ones. */
export const UNDER_WAY: number = Number.MAX_SAFE_INTEGER

/** Events of one shard that were read and are not passed yet, in order. */
export class ShardWindow {
  readonly shard: Shard
  readonly #open: Entry[] = []
  readonly #bySeq = new Map<number, Entry>()
  #dirty = false
  #bytes = 0

  constructor(shard: Shard) {
    this.shard = shard
  }

  get size(): number {
    return this.#open.length
  }

  /** The bytes of events that are not settled. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether there is something to acknowledge. */
  get dirty(): boolean {
    return this.#dirty
  }

  /** The ids of the events that are not settled. */
  get unsettled(): ReadonlySet<string> {
    return new Set(this.#open.flatMap(({ id, settled }) => (settled ? [] : id)))
  }

  add({ seq, segment, id, payload }: StoredEvent): void {
    const entry = { seq, segment, id, bytes: payload?.length ?? 0, settled: false }
    this.#open.push(entry)
    this.#bySeq.set(seq, entry)
    this.#bytes += entry.bytes
  }

  settle(seq: number): void {
    const entry = this.#bySeq.get(seq)
    if (!entry || entry.settled) return
    entry.settled = true
    this.#bytes -= entry.bytes
    if (this.#open[0]?.settled) this.#dirty = true
  }

  /** The cursors after all events that are settled from the front, one for each segment. */
  acks(): Ack[] {
    const ends: End[] = []
    for (const { seq, segment, id, settled } of this.#open) {
      if (!settled) break
      const last = ends.at(-1)
      if (last?.segment === segment) {
        last.seq = seq
        last.id = id
        last.events++
      } else ends.push({ segment, seq, id, events: 1 })
    }
    return passedBy(this.shard, ends, { tryingTo: UNDER_WAY, attempt: 1 })
  }

  /** The acknowledgement was written. */
  passed(last: Ack): void {
    this.shard.advance(last)
    let count = 0
    while (count < this.#open.length && (this.#open[count] as Entry).seq <= last.cursor) count++
    for (const { seq } of this.#open.splice(0, count)) this.#bySeq.delete(seq)
    this.#dirty = this.#open[0]?.settled === true
  }
}
