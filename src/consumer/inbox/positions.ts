import type { Delivery, Position } from '../../source/source.ts'
import { POSITION_WITNESSES_MAX } from '../../limits.ts'
import type { StoredPosition } from '../../store/inbox.ts'

interface Entry {
  readonly offset: bigint
  readonly next: string
  settled: boolean
  /** An inbox id of the transaction that settled the delivery. Null: there is none to check. */
  witness: string | null
  /** After this time, the database may have swept the witness. */
  askableUntil: number
}

/** How far a position may move, and the witnesses that the database must still have. */
interface Reach {
  readonly next: string
  readonly witnesses: readonly string[]
}

const NOTHING: ReadonlySet<string> = new Set()

/**
 * The deliveries of one partition that its position has not passed. Many may wait behind one, so no method reads all of
 * them.
 */
class Partition {
  readonly #known = new Map<string, Entry>()
  /** Sorted by offset. Entries before `#head` are passed. */
  #open: Entry[] = []
  #head = 0

  add({ offset, next }: Position): void {
    if (this.#known.has(offset)) return
    const entry = { offset: BigInt(offset), next, settled: false, witness: null, askableUntil: 0 }
    this.#known.set(offset, entry)
    let index = this.#open.length
    while (index > this.#head && (this.#open[index - 1] as Entry).offset > entry.offset) index--
    if (index === this.#open.length) this.#open.push(entry)
    else this.#open.splice(index, 0, entry)
  }

  settle({ offset }: Position, witness: string | null, askableUntil: number): void {
    const entry = this.#known.get(offset)
    if (entry) Object.assign(entry, { settled: true, witness, askableUntil })
  }

  /** The position if these deliveries were settled too, by the transaction that is about to commit. */
  after(settling: ReadonlySet<string>, now: number): Reach | undefined {
    let next: string | undefined
    const witnesses = new Set<string>()
    for (let at = this.#head; at < this.#open.length && witnesses.size < POSITION_WITNESSES_MAX; at++) {
      const entry = this.#open[at] as Entry
      if (!settling.has(String(entry.offset))) {
        if (!entry.settled) break
        if (entry.witness !== null && now < entry.askableUntil) witnesses.add(entry.witness)
      }
      next = entry.next
    }
    return next === undefined ? undefined : { next, witnesses: [...witnesses] }
  }

  /** Removes settled entries up to a position that the database has stored. */
  pass(next: bigint): void {
    for (let entry = this.#open[this.#head]; entry?.settled && entry.offset < next; entry = this.#open[++this.#head])
      this.#known.delete(String(entry.offset))
    if (this.#head > 1_024 || this.#head === this.#open.length) {
      this.#open = this.#open.slice(this.#head)
      this.#head = 0
    }
  }
}

/**
 * Tracks how far each partition's position may move: up to the first delivery that is not settled. A delivery that is
 * read again, after a seek, counts as the same one.
 */
export class PositionTracker {
  readonly #partitions = new Map<string, Partition>()
  /** The positions that the database has stored. */
  readonly #written = new Map<string, string>()
  readonly #now: () => number

  constructor(now: () => number = () => 0) {
    this.#now = now
  }

  received(deliveries: readonly Delivery[]): void {
    for (const { position } of deliveries) if (position) this.#of(position.partition).add(position)
  }

  /** The positions if these deliveries were settled too, by the transaction that is about to commit. */
  after(deliveries: readonly Delivery[]): StoredPosition[] {
    const offsets = new Map<string, Set<string>>()
    for (const { position } of deliveries) {
      if (!position) continue
      const of = offsets.get(position.partition) ?? new Set()
      offsets.set(position.partition, of.add(position.offset))
    }
    return [...offsets].flatMap(([partition, settling]) => this.#stored(partition, settling))
  }

  /** `askableForMs`: how long the database keeps the witness, unless it is restored. */
  settled(deliveries: readonly Delivery[], witness: string | null, askableForMs: number = Infinity): void {
    const until = this.#now() + askableForMs
    for (const { position } of deliveries) if (position) this.#of(position.partition).settle(position, witness, until)
  }

  /**
   * The positions that the partitions of these deliveries have reached. The first settled delivery passes all settled
   * ones behind it.
   */
  reached(deliveries: readonly Delivery[]): StoredPosition[] {
    const touched = new Set(deliveries.flatMap(({ position }) => position?.partition ?? []))
    return [...touched].flatMap((partition) => this.#stored(partition, NOTHING))
  }

  #stored(partition: string, settling: ReadonlySet<string>): StoredPosition[] {
    const reach = this.#partitions.get(partition)?.after(settling, this.#now())
    return reach ? [{ partition, ...reach, from: this.#written.get(partition) }] : []
  }

  /** The database returned these positions when reading began. */
  began(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) this.#written.set(partition, next)
  }

  /** The database has stored these positions. */
  wrote(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) {
      const known = this.#partitions.get(partition)
      // Another process may have the partition by now.
      if (!known) continue
      known.pass(BigInt(next))
      if (BigInt(next) > BigInt(this.#written.get(partition) ?? 0)) this.#written.set(partition, next)
    }
  }

  get written(): readonly StoredPosition[] {
    return [...this.#written].map(([partition, next]) => ({ partition, next }))
  }

  /** Another process has these partitions now. */
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
