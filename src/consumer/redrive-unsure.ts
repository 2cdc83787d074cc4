import { UNSURE_LOOK_MS, UNSURE_LOOKS_MAX } from '../limits.ts'
import type { ConsumerParts } from './parts.ts'
import { sleep } from '../platform/clock.ts'

/**
 * Letters whose commit may have succeeded although its reply was lost. A signal reports those that were applied. This
 * object outlives the executor, which may be paused, stopped or lose its lease before it can check.
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

  /** Reports the letters that were applied. The others stay, because a commit may still be under way. */
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

  /** The last check. A letter that is not applied by now runs again, and is reported then. */
  async clear(): Promise<void> {
    await this.tell()
    this.#ords.clear()
  }

  /** There is no later check. An unavailable store must not block a stop. */
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
