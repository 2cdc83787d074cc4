import type { Answer } from '../lifecycle/answer.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** The answer of a completed operation, as a cache keeps it. */
export interface CachedAnswer {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly answer: Answer
  /** The life of the record that the answer belongs to. */
  readonly life: string
  /** The end of that life, on the monotonic clock of this process. */
  readonly until: number
}

/** A call that asks a cache. */
export interface CacheReader {
  /** When the call began, on the monotonic clock of this process. */
  readonly at: number
}

/**
 * Completed answers outside the database. Safe because a completed record does not change until it expires or is erased.
 * A cache may lose any answer at any time. Only the database refuses a call.
 *
 * `reader` is the call that looks and then reads the database. A cache that other processes share must not accept an
 * answer that was read before the reader looked, because the answer may have been erased in between.
 */
export interface AnswerCache {
  /** Undefined: ask the database. A promise only if the cache is outside this process. Never rejects. */
  get(id: string, reader: CacheReader): CachedAnswer | undefined | Promise<CachedAnswer | undefined>
  /** Keeps an answer that the database has committed. */
  set(id: string, entry: CachedAnswer, reader: CacheReader): void
  /** Removes answers that the database has erased. True: no call gets them any more. False: `renew` must follow. */
  remove(ids: readonly string[]): Promise<boolean>
  /** Makes every answer worthless. Resolves when no call gets one of them any more. */
  renew(): Promise<void>
  clear(): void
}

/** Resolves when no call gets these answers any more. */
export async function dropAnswers(cache: AnswerCache, ids: readonly string[]): Promise<void> {
  if (!(await cache.remove(ids))) await cache.renew()
}

/** What a cache needs of its instance. */
export interface CacheParts {
  readonly clock: Clock
  readonly random: Random
  /** Tells the observer that the cache does not answer. */
  readonly observe: (trouble: CacheTrouble) => void
}

export interface CacheTrouble {
  readonly kind: 'troubled'
  readonly task: 'cache'
  readonly error: unknown
}
