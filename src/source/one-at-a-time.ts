/** Work that never runs twice at the same time. Calls during a run share the next run. */
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
