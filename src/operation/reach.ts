const DAY_MS = 86_400_000

/** How far ahead answers expire, at most, so far. Partitions are created that far ahead. */
export class Reach {
  ms: number
  #grown: () => void = () => {}

  constructor(ms: number) {
    this.ms = ms
  }

  /** In days, because there is one partition per day. */
  whenGrown(callback: () => void): void {
    this.#grown = callback
  }

  /** Every operation calls this, so it must be cheap. */
  note(ms: number): number {
    if (ms > this.ms) {
      const days = Math.ceil(ms / DAY_MS) - Math.ceil(this.ms / DAY_MS)
      this.ms = ms
      if (days > 0) this.#grown()
    }
    return ms
  }
}
