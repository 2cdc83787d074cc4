import { CACHE_DROP_KEYS_MAX, CACHE_DROP_MS, NONCE_MS, SHARED_ANSWER_BYTES_MAX } from './limits.ts'
import { inTime } from '../platform/in-time.ts'
import type { AnswerCache, CachedAnswer, CacheParts } from '../store/answer-cache.ts'
import { Breaker } from './breaker.ts'
import type { CacheServer } from './cache-server.ts'
import { readEntry, written } from './entry.ts'
import { Epoch, type EpochStore, type KnownEpoch } from './epoch.ts'

/** Where a reader has planted its nonce. */
interface Planted {
  readonly epoch: KnownEpoch
  readonly key: string
  readonly nonce: string
}

/**
 * Completed answers on a server that processes share. The server is not trusted: it may be empty, old, slow or gone, and
 * its clock may be wrong. So an entry counts only under the current epoch, for its own record, and until its life ends by
 * the database's clock. Only a reader whose nonce is still there may fill. Thus an answer that was read before it was
 * erased never comes back.
 */
export class SharedAnswers implements AnswerCache {
  readonly #server: CacheServer
  readonly #parts: CacheParts
  readonly #epoch: Epoch
  readonly #breaker: Breaker
  readonly #planted = new WeakMap<object, Planted>()

  constructor(server: CacheServer, store: EpochStore, parts: CacheParts) {
    this.#server = server
    this.#parts = parts
    this.#epoch = new Epoch(store, parts.clock)
    this.#breaker = new Breaker(parts.clock, (error) => parts.observe({ kind: 'troubled', task: 'cache', error }))
  }

  /** While the server rests, a call costs no promise and no key. */
  get(id: string, reader: object): Promise<CachedAnswer | undefined> | undefined {
    if (this.#breaker.isResting || !this.#server.isReady()) return undefined
    const epoch = this.#epoch.current()
    return epoch && this.#look(id, reader, epoch)
  }

  async #look(id: string, reader: object, epoch: KnownEpoch): Promise<CachedAnswer | undefined> {
    const planting = { key: keyOf(epoch, id), nonce: this.#parts.random.uuid() }
    const found = await this.#breaker.run(() => this.#server.look({ ...planting, forMs: NONCE_MS }))
    if (found === undefined) return undefined
    if (found === null) {
      this.#planted.set(reader, { epoch, ...planting })
      return undefined
    }
    const entry = readEntry(found, id)
    // The epoch may have ended while the server answered.
    const now = this.#epoch.current()
    if (!entry || now?.name !== epoch.name) return undefined
    const until = now.sentAt + (entry.until - now.position)
    return until > this.#parts.clock.now() ? { ...entry, until } : undefined
  }

  set(id: string, { until, ...entry }: CachedAnswer, reader: object): void {
    const planted = this.#planted.get(reader)
    if (!planted) return
    this.#planted.delete(reader)
    const { epoch, ...where } = planted
    const forMs = Math.floor(until - this.#parts.clock.now())
    const isLarge = (entry.answer.body?.byteLength ?? 0) > SHARED_ANSWER_BYTES_MAX
    if (forMs <= 0 || isLarge || !this.#breaker.isClosed || !this.#server.isReady()) return
    const position = epoch.position + (until - epoch.answeredAt)
    const text = written({ ...entry, id, until: position })
    this.#server.write({ ...where, forMs, entry: text }).catch(() => {})
  }

  async remove(ids: readonly string[]): Promise<boolean> {
    const epoch = await this.#epoch.settled()
    try {
      for (let from = 0; from < ids.length; from += CACHE_DROP_KEYS_MAX) {
        const keys = ids.slice(from, from + CACHE_DROP_KEYS_MAX).map((id) => keyOf(epoch, id))
        const late = (): Error => new Error(`no answer from the cache within ${CACHE_DROP_MS} ms`)
        await inTime(this.#server.drop(keys), CACHE_DROP_MS, late, this.#parts.clock)
      }
      return true
    } catch {
      return false
    }
  }

  /** Takes a few seconds, because every process must notice the new epoch. */
  renew(): Promise<void> {
    return this.#epoch.renew()
  }

  /** The entries belong to all processes. */
  clear(): void {}
}

/** The braces make a cluster choose the node by the id alone. */
function keyOf({ name }: KnownEpoch, id: string): string {
  return `effectively-once-cache:${name}:{${id}}`
}
