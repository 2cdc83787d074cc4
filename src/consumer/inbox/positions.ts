import type { Delivery, Position } from '../../source/source.ts'
import { POSITION_WITNESSES_MAX } from '../../limits.ts'
import type { StoredPosition } from '../../store/inbox.ts'

interface Entry {
  readonly offset: bigint
  readonly next: string
  settled: boolean
  /** What the transaction that settled it left in the database; null: nothing that can be asked for. */
  witness: string | null
  /** From then on the database may have swept the witness. */
  askableUntil: number
}

/** How far a partition may be passed, and what must be in the database for that. */
interface Reach {
  readonly next: string
  readonly witnesses: readonly string[]
}

const NOTHING: ReadonlySet<string> = new Set()

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

  /** Where it would be if these were settled too, by the transaction that asks. */
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

  /** Forgets what is settled, up to a place that the database was told of. */
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
 * How far each partition of a log may be passed: up to the first delivery that is not settled. A delivery that comes
 * again (after a seek) is the same one.
 */
export class PositionTracker {
  readonly #partitions = new Map<string, Partition>()
  /** What the database is known to have. */
  readonly #written = new Map<string, string>()
  readonly #now: () => number

  constructor(now: () => number = () => 0) {
    this.#now = now
  }

  received(deliveries: readonly Delivery[]): void {
    for (const { position } of deliveries) if (position) this.#of(position.partition).add(position)
  }

  /** Where the partitions of these would be if they were settled too, by the transaction that asks. */
  after(deliveries: readonly Delivery[]): StoredPosition[] {
    const offsets = new Map<string, Set<string>>()
    for (const { position } of deliveries) {
      if (!position) continue
      const of = offsets.get(position.partition) ?? new Set()
      offsets.set(position.partition, of.add(position.offset))
    }
    return [...offsets].flatMap(([partition, settling]) => this.#stored(partition, settling))
  }

  /** `askableForMs`: so long the database has the witness, unless it was put back. */
  settled(deliveries: readonly Delivery[], witness: string | null, askableForMs: number = Infinity): void {
    const until = this.#now() + askableForMs
    for (const { position } of deliveries) if (position) this.#of(position.partition).settle(position, witness, until)
  }

  /** How far the partitions of these may be passed now. Whoever settles the first of them passes those behind it. */
  reached(deliveries: readonly Delivery[]): StoredPosition[] {
    const touched = new Set(deliveries.flatMap(({ position }) => position?.partition ?? []))
    return [...touched].flatMap((partition) => this.#stored(partition, NOTHING))
  }

  #stored(partition: string, settling: ReadonlySet<string>): StoredPosition[] {
    const reach = this.#partitions.get(partition)?.after(settling, this.#now())
    return reach ? [{ partition, ...reach, from: this.#written.get(partition) }] : []
  }

  /** The database said so when these partitions were begun: there is nobody who knows better. */
  began(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) this.#written.set(partition, next)
  }

  /** The database was told of these. */
  wrote(positions: readonly StoredPosition[]): void {
    for (const { partition, next } of positions) {
      const known = this.#partitions.get(partition)
      // It may be somebody else's meanwhile.
      if (!known) continue
      known.pass(BigInt(next))
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
