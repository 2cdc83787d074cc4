const DAY_MS = 86_400_000

/** How far ahead answers expire, of all that was asked for so far: storage is made ready that far. */
export class Reach {
  ms: number
  #grown: () => void = () => {}

  constructor(ms: number) {
    this.ms = ms
  }

  /** By days: storage is made by the day. */
  whenGrown(callback: () => void): void {
    this.#grown = callback
  }

  /** On the path of every operation. */
  note(ms: number): number {
    if (ms > this.ms) {
      const days = Math.ceil(ms / DAY_MS) - Math.ceil(this.ms / DAY_MS)
      this.ms = ms
      if (days > 0) this.#grown()
    }
    return ms
  }
}
