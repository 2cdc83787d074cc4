/** Work that never runs beside itself. Whoever asks while it runs waits for the next run, which does it for all of them. */
export class OneAtATime {
  readonly #work: () => Promise<void>
  #running: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(work: () => Promise<void>) {
    this.#work = work
  }

  run(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      const now = this.#work()
      this.#running = now.catch(() => {})
      return now
    })
    return this.#next
  }
}
