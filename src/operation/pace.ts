import { RETRY_AFTER_MS_MIN } from '../limits.ts'

const SAMPLES = 64
const ROUTES_MAX = 500

/** How long the operations of each route take: an atomic duplicate has no lease to count down, so it gets the p95. */
export class Pace {
  readonly #routes = new Map<string, { readonly samples: Float64Array; count: number }>()

  note(route: string, durationMs: number): void {
    let known = this.#routes.get(route)
    if (!known) {
      if (this.#routes.size >= ROUTES_MAX) return
      known = { samples: new Float64Array(SAMPLES), count: 0 }
      this.#routes.set(route, known)
    }
    known.samples[known.count++ % SAMPLES] = durationMs
  }

  retryAfterMs(route: string): number {
    const known = this.#routes.get(route)
    if (!known) return RETRY_AFTER_MS_MIN
    const sorted = known.samples.slice(0, Math.min(known.count, SAMPLES)).sort()
    return Math.max(RETRY_AFTER_MS_MIN, sorted[Math.floor(sorted.length * 0.95)] ?? 0)
  }
}
