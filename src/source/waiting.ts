/** Messages that arrived and were not taken yet. */
export class Waiting<T> {
  #items: T[] = []
  #ring: () => void = () => {}
  #ended = false
  readonly #signal: AbortSignal

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  get any(): boolean {
    return this.#items.length > 0
  }

  push(...items: readonly T[]): void {
    this.pushAll(items)
  }

  /** Adds any number of messages. A single call of `push` limits the number of its arguments. */
  pushAll(items: readonly T[]): void {
    for (const item of items) this.#items.push(item)
    this.#ring()
  }

  drop(unwanted: (item: T) => boolean): void {
    this.#items = this.#items.filter((item) => !unwanted(item))
  }

  /** Wakes the waiting calls, so that they look again. */
  ring(): void {
    this.#ring()
  }

  end(): void {
    this.#ended = true
    this.#items = []
    this.#ring()
  }

  /** Returns messages as soon as there is one. Returns none after the time, an abort or a wake-up. */
  async take(max: number, waitMs: number, signal: AbortSignal): Promise<T[]> {
    const over = (): boolean => this.#ended || signal.aborted || this.#signal.aborted
    if (this.#items.length === 0 && !over()) {
      await untilRung(waitMs, [signal, this.#signal], (ring) => (this.#ring = ring))
    }
    return over() ? [] : this.#items.splice(0, max)
  }
}

/** Waits until the function that `hang` gets is called, the time is over, or the signal aborts. */
export async function untilRung(
  ms: number,
  signals: readonly AbortSignal[],
  hang: (ring: () => void) => void,
): Promise<void> {
  if (signals.some(({ aborted }) => aborted)) return
  await new Promise<void>((resolve) => {
    const ring = (): void => {
      clearTimeout(timer)
      for (const signal of signals) signal.removeEventListener('abort', ring)
      resolve()
    }
    const timer = setTimeout(ring, ms)
    hang(ring)
    for (const signal of signals) signal.addEventListener('abort', ring)
  })
}
