import type { Answer } from '../lifecycle/answer.ts'
import { CACHE_BYTES_MAX, CACHE_ENTRIES_MAX } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'

interface Entry {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly answer: Answer
  readonly bytes: number
  /** The end of the record's life, on the monotonic clock. */
  readonly until: number
}

const ENTRY_BYTES = 300

/**
 * Completed records of this process: repeated retries need no database. Safe because a completed record does not change
 * until it expires. Bounded by entries and bytes, oldest out first.
 */
export class ReplayCache {
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(id: string): Entry | undefined {
    const entry = this.#entries.get(id)
    if (entry === undefined || entry.until > this.#clock.now()) return entry
    this.#remove(id, entry)
    return undefined
  }

  set(id: string, record: Omit<Entry, 'bytes'>): void {
    const old = this.#entries.get(id)
    if (old) this.#remove(id, old)
    const bytes = ENTRY_BYTES + (record.answer.body?.byteLength ?? 0)
    if (record.until <= this.#clock.now() || bytes > CACHE_BYTES_MAX / 16) return
    this.#entries.set(id, { ...record, bytes })
    this.#bytes += bytes
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= CACHE_ENTRIES_MAX && this.#bytes <= CACHE_BYTES_MAX) break
      this.#remove(oldest, entry)
    }
  }

  clear(): void {
    this.#entries.clear()
    this.#bytes = 0
  }

  #remove(id: string, entry: Entry): void {
    this.#entries.delete(id)
    this.#bytes -= entry.bytes
  }
}
