import { CONSUMER_BYTES_MAX } from '../../limits.ts'

/** The prefetch while the size of events is unknown. */
const FIRST = 16
/** The weight of one event in the moving average of sizes. */
const SHARE = 1 / 16

export interface RabbitmqPrefetchParts {
  /** The most events in hand. */
  readonly most: number
  /** Adds a consumer to the channel, with this prefetch. Returns its tag. */
  consume(count: number): Promise<string>
  cancel(consumerTag: string): Promise<unknown>
}

/**
 * How many events the server sends ahead on one channel. The server counts events, whatever their size, and the limit
 * of a consumer cannot change. So one consumer reads a few events, and a second consumer as many more as fit by bytes.
 * The second one is replaced when events become larger or smaller.
 */
export class RabbitmqPrefetch {
  readonly #parts: RabbitmqPrefetchParts
  #mean: number | null = null
  #inHand = 0
  #more: { readonly count: number; readonly consumerTag: string } | undefined
  #changing = false

  constructor(parts: RabbitmqPrefetchParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    await this.#parts.consume(Math.min(FIRST, this.#parts.most))
  }

  came(bytes: number): void {
    this.#inHand++
    this.#mean = this.#mean === null ? bytes : this.#mean + (bytes - this.#mean) * SHARE
  }

  settled(): void {
    this.#inHand--
  }

  /** Changes one consumer at a time. A change that fails is tried again later, unless the channel is gone. */
  adapt(): void {
    const change = this.#changing ? undefined : this.#due()
    if (!change) return
    this.#changing = true
    void change().then(
      () => (this.#changing = false),
      () => (this.#changing = false),
    )
  }

  #due(): (() => Promise<void>) | undefined {
    if (this.#mean === null) return undefined
    const { most } = this.#parts
    const count = Math.min(most, Math.floor(CONSUMER_BYTES_MAX / Math.max(1, this.#mean))) - FIRST
    const more = this.#more
    if (more) return count < more.count / 2 || count > more.count * 2 ? () => this.#cancel(more.consumerTag) : undefined
    // The events of the former consumer still take up room.
    return count > 0 && this.#inHand <= FIRST ? () => this.#begin(count) : undefined
  }

  async #begin(count: number): Promise<void> {
    this.#more = { count, consumerTag: await this.#parts.consume(count) }
  }

  async #cancel(consumerTag: string): Promise<void> {
    await this.#parts.cancel(consumerTag)
    this.#more = undefined
  }
}
