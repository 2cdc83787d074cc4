/** How often the machine is asked whether it keeps up. */
const EVERY_MS = 50
/** Whoever runs again after a deadline may have no more time than this. */
const HELD_UP_MS = 200

/**
 * Whether the machine kept up while a program was played. A deadline says nothing about the product when the process or
 * the database stood still for a good part of it.
 */
export class Steadiness {
  readonly #probe: () => Promise<unknown>
  #heldUpAt = -Infinity
  #askedAt = performance.now()
  #closed = false

  constructor(probe: () => Promise<unknown>) {
    this.#probe = probe
    void this.#watch()
  }

  /** `from` is on the clock of `performance.now()`. */
  heldUpSince(from: number): boolean {
    this.#look()
    return this.#heldUpAt >= from
  }

  close(): void {
    this.#closed = true
  }

  async #watch(): Promise<void> {
    while (!this.#closed) {
      this.#askedAt = performance.now()
      await this.#probe().catch(() => {})
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS).unref())
      this.#look()
    }
  }

  #look(): void {
    const now = performance.now()
    if (now - this.#askedAt > EVERY_MS + HELD_UP_MS) this.#heldUpAt = now
  }
}
