import { UNSURE_LOOK_MS, UNSURE_LOOKS_MAX } from '../limits.ts'
import type { ConsumerParts } from './parts.ts'
import { sleep } from '../platform/clock.ts'

/**
 * Letters whose commit may have come through although its reply was lost: whoever observes hears of those that did. It
 * outlives the executor, which may be paused, stopped or robbed of its lease before it can look.
 */
export class Unsure<Tx> {
  readonly #parts: ConsumerParts<Tx>
  /** Places of letters, by redrive. */
  readonly #ords = new Map<number, Set<number>>()

  constructor(parts: ConsumerParts<Tx>) {
    this.#parts = parts
  }

  add(redrive: number, ord: number): void {
    const ords = this.#ords.get(redrive) ?? new Set()
    this.#ords.set(redrive, ords.add(ord))
  }

  /** Tells of those that were applied; the others stay, for a commit may still be on its way. */
  async tell(): Promise<void> {
    const { namespace, settings } = this.#parts.core
    for (const [redrive, ords] of this.#ords) {
      const first = Math.min(...ords)
      const page = { redrive, outcomes: ['applied'] as const, after: first - 1, limit: Math.max(...ords) - first + 1 }
      const items = (await namespace.redrives?.items(page)) ?? []
      const applied = items.filter(({ ord }) => ords.delete(ord)).length
      if (ords.size === 0) this.#ords.delete(redrive)
      const consumer = this.#parts.settings.name
      if (applied > 0) settings.observe({ kind: 'consumed', consumer, messages: applied, applied })
    }
  }

  /** The last look: what was not applied by now runs again, and is told of then. */
  async clear(): Promise<void> {
    await this.tell()
    this.#ords.clear()
  }

  /** Nobody looks later. A store that is away for long keeps nobody from stopping. */
  async end(): Promise<void> {
    for (let look = 1; this.#ords.size > 0; look++) {
      try {
        return await this.clear()
      } catch (error) {
        this.#parts.core.settings.observe({ kind: 'troubled', task: 'redrive', error })
        if (look >= UNSURE_LOOKS_MAX) return
        await sleep(this.#parts.core.clock, UNSURE_LOOK_MS * look)
      }
    }
  }
}
