import type { Answer } from '../lifecycle/answer.ts'
import { CACHE_BYTES_MAX, CACHE_ENTRIES_MAX } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'

interface Entry {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly answer: Answer
  /** The end of the record's life, on the monotonic clock. */
  readonly until: number
}

const ENTRY_BYTES = 300

/**
 * Completed records of this process: repeated retries need no database. Safe because a completed record does not change
 * until it expires. There are two generations, each with at most half of the limit. When the young generation is full,
 * the whole old one is dropped. Removing entries one by one would cost every operation more than the cache saves a
 * retry.
 */
export class ReplayCache {
  readonly #clock: Clock
  #young = new Map<string, Entry>()
  #old = new Map<string, Entry>()
  #youngBytes = 0
  #clearedAt = -Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(id: string): Entry | undefined {
    const entry = this.#young.get(id) ?? this.#old.get(id)
    return entry === undefined || entry.until > this.#clock.now() ? entry : undefined
  }

  /** `at`: when the call began that read the answer. A call from before `clear` may have read an erased answer. */
  set(id: string, entry: Entry, at: number): void {
    if (at <= this.#clearedAt) return
    const bytes = ENTRY_BYTES + (entry.answer.body?.byteLength ?? 0)
    if (bytes > CACHE_BYTES_MAX / 16) return
    if (this.#young.size >= CACHE_ENTRIES_MAX / 2 || this.#youngBytes + bytes > CACHE_BYTES_MAX / 2) this.#age()
    this.#young.set(id, entry)
    this.#youngBytes += bytes
  }

  /** Also forgets the answers that running calls have read and not stored here yet. */
  clear(): void {
    this.#clearedAt = this.#clock.now()
    this.#age()
    this.#age()
  }

  #age(): void {
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}
