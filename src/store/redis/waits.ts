import type { Clock } from '../../platform/clock.ts'

/** The longest time that replicas get to confirm a write. */
const WITHIN_MS_MAX = 1_000
/** Healthy replicas may need so long. So leases of less than about two seconds are not protected. */
const WITHIN_MS_MIN = 200
/** A heartbeat may be late by this part of its lease. */
const LATE_PART = 1 / 4
/** How long a write waits for a place. */
const PLACE_MS = 1_000

/**
 * WAIT blocks its connection, and everything that was sent behind it. So only a few are under way at a time, and each is
 * short: then a heartbeat renews its lease in time, although the replicas are gone.
 */
export class Waits {
  readonly #clock: Clock
  readonly #connections: () => number
  readonly #queue = new Set<() => void>()
  #entered = 0
  #leaseMs = Infinity

  constructor(clock: Clock, connections: () => number) {
    this.#clock = clock
    this.#connections = connections
  }

  /** Heartbeats of such leases may be sent behind a WAIT. */
  protect(leaseMs: number): void {
    this.#leaseMs = Math.min(this.#leaseMs, leaseMs)
  }

  /** How long a WAIT that is sent now may take. */
  get withinMs(): number {
    const withinMs = Math.floor((this.#leaseMs * LATE_PART) / this.#places)
    return Math.min(WITHIN_MS_MAX, Math.max(WITHIN_MS_MIN, withinMs))
  }

  /** False: no place became free in time. */
  enter(): true | Promise<boolean> {
    if (this.#entered < this.#places && this.#queue.size === 0) {
      this.#entered++
      return true
    }
    return new Promise((resolve) => {
      const end = (entered: boolean): void => {
        cancel()
        this.#queue.delete(next)
        if (entered) this.#entered++
        resolve(entered)
      }
      const next = (): void => end(true)
      const cancel = this.#clock.after(PLACE_MS, () => end(false))
      this.#queue.add(next)
    })
  }

  leave(): void {
    this.#entered--
    const [next] = this.#queue
    if (this.#entered < this.#places) next?.()
  }

  /** One more than connections, so that a server finds the next write when it has done with one. */
  get #places(): number {
    return this.#connections() + 1
  }
}
