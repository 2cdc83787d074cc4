import type { Ack } from '../store/outbox.ts'
import { passedBy, type End } from './batch.ts'
import { behind, dueNow } from './holding.ts'
import { isDecided, type Item } from './item.ts'
import { intent } from './ledger.ts'
import type { Shard } from './shard.ts'

/** The events of each shard that were read and that the cursor has not passed, in order. */
export class Windows {
  readonly #byShard = new Map<Shard, Item[]>()
  size = 0

  add(item: Item): void {
    const window = this.#byShard.get(item.shard)
    if (window) window.push(item)
    else this.#byShard.set(item.shard, [item])
    this.size++
  }

  has(shard: Shard): boolean {
    return this.#byShard.has(shard)
  }

  /** A shard may use as much room as is left for all others, so a shard that is stuck never takes their room. */
  hasRoom(shard: Shard, most: number): boolean {
    return (this.#byShard.get(shard)?.length ?? 0) < most - this.size
  }

  remove(shard: Shard): void {
    this.size -= this.#byShard.get(shard)?.length ?? 0
    this.#byShard.delete(shard)
  }

  /** The cursors after the decided events at the front, or announcements without a new cursor. */
  acksOf(shard: Shard): Ack[] {
    const window = this.#byShard.get(shard) ?? []
    const ends: End[] = []
    let passed = 0
    for (const item of window) {
      if (!isDecided(item)) break
      passed++
      const { segment, seq, id } = item.stored
      const last = ends.at(-1)
      if (last?.segment === segment) {
        last.seq = seq
        last.id = id
        last.events++
      } else ends.push({ segment, seq, id, events: 1 })
    }
    const following = passed < window.length ? endOf(window) : null
    if (passed > 0) return passedBy(shard, ends, { tryingTo: following, attempt: following === null ? 0 : 1 })
    // An unchanged announcement is repeated in the same words, so that nothing is written.
    const { tryingTo, attempt } = shard.fresh ? { tryingTo: following, attempt: 1 } : shard.announced
    return [intent(shard, tryingTo, attempt)]
  }

  /** An acknowledgement was written. */
  written(ack: Ack, shard: Shard): void {
    shard.advance(ack)
    shard.fresh = false
    const window = this.#byShard.get(shard)
    if (!window) return
    let count = 0
    while (count < window.length && (window[count] as Item).stored.seq <= ack.cursor) count++
    if (count === window.length) this.remove(shard)
    else {
      window.splice(0, count)
      this.size -= count
    }
  }

  /**
   * For a shard that will be released. Undecided events before sent events are held, so that the cursor can pass the
   * sent events. Returns the held ones.
   */
  setAside(shard: Shard): Item[] {
    const window = this.#byShard.get(shard) ?? []
    const last = window.findLastIndex(isDecided)
    const aside = window.slice(0, last + 1).filter((item) => !isDecided(item))
    for (const item of aside) {
      const { aggregateId } = item.stored
      const parked = shard.blocked.get(aggregateId)
      item.hold = parked === undefined ? dueNow(item.stored) : behind(item.stored, parked)
      item.state = 'aside'
      if (parked === undefined) shard.blocked.set(aggregateId, false)
    }
    return aside
  }
}

function endOf(window: readonly Item[]): number | null {
  return window.at(-1)?.stored.seq ?? null
}
