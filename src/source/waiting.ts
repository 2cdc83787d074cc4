/** What has arrived and waits to be taken. */
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

  /** However many: a call has room for only so many arguments. */
  pushAll(items: readonly T[]): void {
    for (const item of items) this.#items.push(item)
    this.#ring()
  }

  drop(unwanted: (item: T) => boolean): void {
    this.#items = this.#items.filter((item) => !unwanted(item))
  }

  /** Whoever waits looks again. */
  ring(): void {
    this.#ring()
  }

  end(): void {
    this.#ended = true
    this.#items = []
    this.#ring()
  }

  /** At least one as soon as there is one; none when the time is over, somebody aborts, or somebody rings. */
  async take(max: number, waitMs: number, signal: AbortSignal): Promise<T[]> {
    const over = (): boolean => this.#ended || signal.aborted || this.#signal.aborted
    if (this.#items.length === 0 && !over()) {
      await untilRung(waitMs, [signal, this.#signal], (ring) => (this.#ring = ring))
    }
    return over() ? [] : this.#items.splice(0, max)
  }
}

/** Until somebody calls what `hang` is given, the time is over, or nobody waits any more. */
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
