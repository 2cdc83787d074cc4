import { passedBy, type End } from '../outbox/batch.ts'
import type { Shard } from '../outbox/shard.ts'
import type { Ack, StoredEvent } from '../store/outbox.ts'

interface Entry {
  readonly stored: StoredEvent
  settled: boolean
}

/** The last owner of a shard had events under way when it was last heard of: which ones nobody knows. */
export const UNDER_WAY: number = Number.MAX_SAFE_INTEGER

/** Events of one shard that were read and are not passed yet, in order. */
export class ShardWindow {
  readonly shard: Shard
  readonly #open: Entry[] = []
  readonly #bySeq = new Map<number, Entry>()
  #dirty = false

  constructor(shard: Shard) {
    this.shard = shard
  }

  get size(): number {
    return this.#open.length
  }

  /** There is something to acknowledge. */
  get dirty(): boolean {
    return this.#dirty
  }

  add(stored: StoredEvent): void {
    const entry = { stored, settled: false }
    this.#open.push(entry)
    this.#bySeq.set(stored.seq, entry)
  }

  settle(seq: number): void {
    const entry = this.#bySeq.get(seq)
    if (!entry) return
    entry.settled = true
    if (this.#open[0]?.settled) this.#dirty = true
  }

  /** The cursors behind everything that is settled from the front, one for each segment. */
  acks(): Ack[] {
    const ends: End[] = []
    for (const { stored, settled } of this.#open) {
      if (!settled) break
      const last = ends.at(-1)
      if (last?.segment === stored.segment) {
        last.seq = stored.seq
        last.events++
      } else ends.push({ segment: stored.segment, seq: stored.seq, events: 1 })
    }
    return passedBy(this.shard, ends, { tryingTo: UNDER_WAY, attempt: 1 })
  }

  /** The acknowledgement was written. */
  passed(last: Ack): void {
    this.shard.advance(last)
    let count = 0
    while (count < this.#open.length && (this.#open[count] as Entry).stored.seq <= last.cursor) count++
    for (const { stored } of this.#open.splice(0, count)) this.#bySeq.delete(stored.seq)
    this.#dirty = this.#open[0]?.settled === true
  }
}
