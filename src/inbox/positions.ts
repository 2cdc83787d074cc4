import type { Delivery, Position } from '../source/source.ts'
import type { StoredPosition } from '../store/inbox.ts'

/** What was delivered of one partition and is not passed yet, in order. */
interface Partition {
  readonly open: { readonly position: Position; settled: boolean }[]
}

/**
 * How far each partition of a log may be passed: up to the first delivery that is not settled. A delivery that comes
 * again (after a seek) is the same one.
 */
export class PositionTracker {
  readonly #partitions = new Map<string, Partition>()

  received({ position }: Delivery): void {
    if (!position) return
    const { open } = this.#of(position.partition)
    if (open.some((entry) => entry.position.offset === position.offset)) return
    let index = open.length
    while (index > 0 && BigInt((open[index - 1] as (typeof open)[0]).position.offset) > BigInt(position.offset)) index--
    open.splice(index, 0, { position, settled: false })
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
      let next: string | undefined
      for (const { position, settled } of this.#of(partition).open) {
        if (!settled && !settling.has(position.offset)) break
        next = position.next
      }
      return next === undefined ? [] : [{ partition, next }]
    })
  }

  /** Answers how far the partitions are passed now. Whoever settles the first of them passes those settled behind it. */
  settled(deliveries: readonly Delivery[]): StoredPosition[] {
    const passed = new Map<string, string>()
    for (const { position } of deliveries) {
      if (!position) continue
      const { open } = this.#of(position.partition)
      const entry = open.find((candidate) => candidate.position.offset === position.offset)
      if (entry) entry.settled = true
      while (open[0]?.settled) passed.set(position.partition, (open.shift() as (typeof open)[0]).position.next)
    }
    return [...passed].map(([partition, next]) => ({ partition, next }))
  }

  /** The partition is somebody else's now. */
  forget(partitions: readonly string[]): void {
    for (const partition of partitions) this.#partitions.delete(partition)
  }

  #of(partition: string): Partition {
    let found = this.#partitions.get(partition)
    if (!found) {
      found = { open: [] }
      this.#partitions.set(partition, found)
    }
    return found
  }
}
