import { CACHE_BYTES_MAX, CACHE_ENTRIES_MAX } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import type { AnswerCache, CachedAnswer, CacheReader } from '../store/answer-cache.ts'

const ENTRY_BYTES = 300

/**
 * Completed records of this process: repeated retries need no database. There are two generations, each with at most
 * half of the limit. When the young generation is full, the whole old one is dropped. Removing entries one by one would
 * cost every operation more than the cache saves a retry.
 */
export class ReplayCache implements AnswerCache {
  readonly #clock: Clock
  #young = new Map<string, CachedAnswer>()
  #old = new Map<string, CachedAnswer>()
  #youngBytes = 0
  #clearedAt = -Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(id: string): CachedAnswer | undefined {
    const entry = this.#young.get(id) ?? this.#old.get(id)
    return entry === undefined || entry.until > this.#clock.now() ? entry : undefined
  }

  /** `at`: when the call began that read the answer. A call from before `clear` may have read an erased answer. */
  set(id: string, entry: CachedAnswer, { at }: CacheReader): void {
    if (at <= this.#clearedAt) return
    const bytes = ENTRY_BYTES + (entry.answer.body?.byteLength ?? 0)
    if (bytes > CACHE_BYTES_MAX / 16) return
    if (this.#young.size >= CACHE_ENTRIES_MAX / 2 || this.#youngBytes + bytes > CACHE_BYTES_MAX / 2) this.#age()
    this.#young.set(id, entry)
    this.#youngBytes += bytes
  }

  remove(ids: readonly string[]): Promise<boolean> {
    for (const id of ids) {
      this.#young.delete(id)
      this.#old.delete(id)
    }
    return Promise.resolve(true)
  }

  renew(): Promise<void> {
    this.clear()
    return Promise.resolve()
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
