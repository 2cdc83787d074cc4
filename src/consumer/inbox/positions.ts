import type { Delivery, Position } from '../../source/source.ts'
import type { StoredPosition } from '../../store/inbox.ts'

interface Entry {
  readonly offset: bigint
  readonly next: string
  settled: boolean
}

/**
 * What was delivered of one partition and is not passed yet. Behind one that waits there may be very many: nothing here
 * goes through all of them.
 */
class Partition {
  readonly #known = new Map<string, Entry>()
  /** By offset, from `#head` on. */
  #open: Entry[] = []
  #head = 0

  add({ offset, next }: Position): void {
    if (this.#known.has(offset)) return
    const entry = { offset: BigInt(offset), next, settled: false }
    this.#known.set(offset, entry)
    let index = this.#open.length
    while (index > this.#head && (this.#open[index - 1] as Entry).offset > entry.offset) index--
    if (index === this.#open.length) this.#open.push(entry)
    else this.#open.splice(index, 0, entry)
  }

  settle({ offset }: Position): void {
    const entry = this.#known.get(offset)
    if (entry) entry.settled = true
  }

  /** Where it would be if these were settled too. */
  after(settling: ReadonlySet<string>): string | undefined {
    let next: string | undefined
    for (let at = this.#head; at < this.#open.length; at++) {
      const entry = this.#open[at] as Entry
      if (!entry.settled && !settling.has(String(entry.offset))) break
      next = entry.next
    }
    return next
  }

  /** Forgets what is settled, up to the first that is not. */
  pass(): string | undefined {
    let next: string | undefined
    for (let entry = this.#open[this.#head]; entry?.settled; entry = this.#open[++this.#head]) {
      next = entry.next
      this.#known.delete(String(entry.offset))
    }
    if (this.#head > 1_024 || this.#head === this.#open.length) {
      this.#open = this.#open.slice(this.#head)
      this.#head = 0
    }
    return next
  }
}

/**
 * How far each partition of a log may be passed: up to the first delivery that is not settled. A delivery that comes
 * again (after a seek) is the same one.
 */
export class PositionTracker {
  readonly #partitions = new Map<string, Partition>()
  /** What the database is known to have. */
  readonly #written = new Map<string, string>()

  received({ position }: Delivery): void {
    if (position) this.#of(position.partition).add(position)
  }

  /** Where the partitions of these would be if they were settled too. */
  after(deliveries: readonly Delivery[]): StoredPosition[] {
    const offsets = new Map<string, Set<string>>()
    for (const { position } of deliveries) {
      if (!position) continue
      const of = offsets.get(position.partition) ?? new Set()
      offsets.set(position.partition, of.add(position.offset))
    }
    return [...offsets].flatMap(([partition, settling]) => {
      const next = this.#of(partition).after(settling)
      return next === undefined ? [] : [{ partition, next, from: this.#written.get(partition) }]
    })
  }

  /** Answers how far the partitions are passed now. Whoever settles the first of them passes those settled behind it. */
  settled(deliveries: readonly Delivery[]): StoredPosition[] {
    const touched = new Set<string>()
    for (const { position } of deliveries) {
      if (!position) continue
      this.#of(position.partition).settle(position)
      touched.add(position.partition)
    }
    return [...touched].flatMap((partition) => {
      const next = this.#of(partition).pass()
      return next === undefined ? [] : [{ partition, next, from: this.#written.get(partition) }]
    })
  }

  /** The database said so when these partitions were begun: there is nobody who knows better. */
  began(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) this.#written.set(partition, next)
  }

  /** The database was told of these. */
  wrote(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) {
      // It may be somebody else's meanwhile.
      if (!this.#partitions.has(partition)) continue
      if (BigInt(next) > BigInt(this.#written.get(partition) ?? 0)) this.#written.set(partition, next)
    }
  }

  get written(): readonly StoredPosition[] {
    return [...this.#written].map(([partition, next]) => ({ partition, next }))
  }

  /** The partition is somebody else's now. */
  forget(partitions: readonly string[]): void {
    for (const partition of partitions) {
      this.#partitions.delete(partition)
      this.#written.delete(partition)
    }
  }

  #of(partition: string): Partition {
    let found = this.#partitions.get(partition)
    if (!found) {
      found = new Partition()
      this.#partitions.set(partition, found)
    }
    return found
  }
}
