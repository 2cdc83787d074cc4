import { onceError } from '../errors.ts'
import { BATCH_QUEUE_MAX, BATCH_REQUESTS_MAX, BATCH_SCOPE_SHARE, BATCHES_IN_FLIGHT_MAX } from '../limits.ts'
import type { Batches } from '../store/store.ts'
import { runBatch } from './batch.ts'
import { type Item } from './batch-item.ts'
import type { Core } from './core.ts'
import type { Attempt } from './outcome.ts'
import { cutOff } from './running.ts'

const UNTRIED = { conflicts: 0, late: 0, lost: false, staleLocks: 0, since: null } as const

/**
 * Batched mode: requests that wait together share one transaction and one fsync. Each has its own claim and its own
 * effect statement, in order, so checks, updates and duplicates behave as if the requests ran one after the other.
 * There is no timer: whenever fewer than two batches run, the waiting requests are flushed.
 */
export class Batcher<Tx> {
  readonly #core: Core<Tx>
  readonly #batches: Batches
  readonly #max: number
  #limit: number | null = null
  #waiting: Item[] = []
  #underWay = 0
  #scheduled = false

  constructor(core: Core<Tx>, batches: Batches, max: number) {
    this.#core = core
    this.#batches = batches
    this.#max = Math.min(max, BATCH_REQUESTS_MAX)
  }

  add(item: Omit<Item, 'resolve' | 'reject' | keyof typeof UNTRIED>): Promise<Attempt> {
    if (this.#waiting.length >= BATCH_QUEUE_MAX) return Promise.reject(onceError('ONCE_QUEUE_FULL'))
    return new Promise<Attempt>((resolve, reject) => {
      this.#waiting.push({ ...item, resolve, reject, ...UNTRIED })
      this.#schedule()
    })
  }

  /**
   * Starts one turn later, so that all requests of the same turn share a batch: requests arrive on many sockets at
   * once.
   */
  #schedule(): void {
    if (this.#scheduled || this.#underWay >= BATCHES_IN_FLIGHT_MAX || this.#waiting.length === 0) return
    this.#scheduled = true
    const soon = this.#core.clock.soon ?? queueMicrotask
    soon(() => {
      this.#scheduled = false
      if (this.#underWay >= BATCHES_IN_FLIGHT_MAX || this.#waiting.length === 0) return
      this.#underWay++
      void this.#flush().finally(() => {
        this.#underWay--
        this.#schedule()
      })
      this.#schedule()
    })
  }

  async #flush(): Promise<void> {
    if (this.#core.running.isCut) {
      for (const item of this.#take(this.#waiting.length)) item.reject(cutOff())
      return
    }
    try {
      this.#limit ??= Math.min(this.#max, await this.#batches.limit())
    } catch (error) {
      for (const item of this.#take(this.#max)) item.reject(error)
      return
    }
    const rounds: (readonly Item[])[] = [this.#take(this.#limit)]
    for (let items = rounds.pop(); items; items = rounds.pop()) {
      const { again, crowded } = await runBatch(this.#core, this.#batches, items)
      // The server has too few locks, so batches are smaller from now on.
      if (crowded) this.#limit = Math.max(1, Math.min(this.#limit, Math.ceil(items.length / 2)))
      rounds.push(...again)
    }
  }

  /**
   * The caller makes sure that there is one request per identity. While others wait, no scope takes more than its
   * share. A batch has one deadline and one claiming statement, so a request with other options waits for the next
   * batch.
   */
  #take(limit: number): Item[] {
    const taken = this.#fair(limit)
    const [first] = taken
    if (!first || taken.every((item) => isAlike(item, first))) return taken
    this.#waiting.unshift(...taken.filter((item) => !isAlike(item, first)))
    return taken.filter((item) => isAlike(item, first))
  }

  #fair(limit: number): Item[] {
    if (this.#waiting.length <= limit) {
      const all = this.#waiting
      this.#waiting = []
      return all
    }
    const share = Math.max(1, Math.ceil(limit / BATCH_SCOPE_SHARE))
    const perScope = new Map<string, number>()
    const taken: Item[] = []
    const left: Item[] = []
    for (const item of this.#waiting) {
      const used = perScope.get(item.request.claim.scope) ?? 0
      if (taken.length >= limit || used >= share) left.push(item)
      else {
        perScope.set(item.request.claim.scope, used + 1)
        taken.push(item)
      }
    }
    // No other scope waits, so any request may use the rest of the batch.
    taken.push(...left.splice(0, limit - taken.length))
    this.#waiting = left
    return taken
  }
}

/** The options of a batch's first request, which apply to the whole batch. */
function isAlike({ request: one }: Item, { request: other }: Item): boolean {
  return (
    one.deadlineMs === other.deadlineMs &&
    one.claim.replayForMs === other.claim.replayForMs &&
    one.claim.goneForMs === other.claim.goneForMs &&
    one.policy.expired === other.policy.expired
  )
}
