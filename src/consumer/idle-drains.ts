/** Drains of a running consumer. Each waits until a read that began after it found nothing. */
export class IdleDrains {
  /** Since these drains were asked for, no read has begun. */
  #asked: (() => void)[] = []
  #reading: (() => void)[] = []

  get any(): boolean {
    return this.#asked.length + this.#reading.length > 0
  }

  /** Resolves when the consumer holds no message, and a read from now on found none for a while. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#asked.push(resolve))
  }

  /** A read begins. Returns whether it is the first one of a drain. */
  read(): boolean {
    const isFirst = this.#asked.length > 0
    this.#reading.push(...this.#asked.splice(0))
    return isFirst
  }

  /** The last read found nothing, and nothing is in hand. */
  tell(): void {
    for (const resolve of this.#reading.splice(0)) resolve()
  }

  /** The consumer reads no more. */
  end(): void {
    this.read()
    this.tell()
  }
}
