/** Timers that can all be cancelled together. They do not keep the process alive. */
export class Timers {
  readonly #pending = new Set<NodeJS.Timeout>()

  after(delayMs: number, happen: () => void): void {
    const timer = setTimeout(() => {
      this.#pending.delete(timer)
      happen()
    }, delayMs)
    timer.unref()
    this.#pending.add(timer)
  }

  clear(): void {
    for (const timer of this.#pending) clearTimeout(timer)
    this.#pending.clear()
  }
}
