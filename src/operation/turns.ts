/** Work that must not overlap, in the order in which it was asked for. */
export class Turns {
  readonly #waiting: { start(): void; refuse(error: unknown): void }[] = []
  #taken = false
  #closed: { readonly error: unknown } | undefined

  /** True if the turn is taken. */
  get taken(): boolean {
    return this.#taken
  }

  async run<T>(work: () => PromiseLike<T>): Promise<T> {
    if (this.#closed) throw this.#closed.error
    if (this.#taken) await new Promise<void>((start, refuse) => this.#waiting.push({ start, refuse }))
    else this.#taken = true
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next.start()
      else this.#taken = false
    }
  }

  /** Refuses all waiting calls, and all later ones. */
  close(error: unknown): void {
    this.#closed ??= { error }
    for (const { refuse } of this.#waiting.splice(0)) refuse(error)
  }
}
