import type { NatsMessage } from './delivery.ts'
import type { ReceiveParams } from '../../source/source.ts'
import { untilRung } from '../../source/waiting.ts'
import { inTime } from '../../platform/in-time.ts'

export interface NatsPullConsumer {
  fetch(options: { max_messages: number; expires: number; bind: boolean }): Promise<NatsMessages>
}

export interface NatsMessages extends AsyncIterable<NatsMessage> {
  close(): Promise<unknown>
}

/** The client's minimum. A fetch continues after `receive` has returned the first messages. */
const EXPIRES_MS_MIN = 1_000
const EXPIRES_MS_MAX = 30_000
/** A fetch that has not ended this long after its time will never end. */
const FORGOTTEN_MS = 5_000

/** Runs one fetch at a time, for as many messages as were last requested. The first messages are returned at once. */
export class NatsFetching {
  readonly #connect: () => Promise<NatsPullConsumer>
  readonly #signal: AbortSignal
  #consumer: NatsPullConsumer | undefined
  #messages: NatsMessages | undefined
  #fetching: Promise<void> | undefined
  #queue: NatsMessage[] = []
  #failure: { readonly error: unknown } | undefined
  #ring: () => void = () => {}
  #closed = false

  constructor(connect: () => Promise<NatsPullConsumer>, consumer: NatsPullConsumer | undefined, signal: AbortSignal) {
    this.#connect = connect
    this.#consumer = consumer
    this.#signal = signal
  }

  async next({ max, waitMs, signal }: ReceiveParams): Promise<NatsMessage[]> {
    const until = performance.now() + waitMs
    while (this.#queue.length === 0 && !signal.aborted && !this.#signal.aborted && !this.#closed) {
      if (this.#failure) {
        const { error } = this.#failure
        this.#failure = undefined
        throw error
      }
      const leftMs = until - performance.now()
      if (leftMs <= 0) break
      this.#fetching ??= this.#fetch(max, Math.min(EXPIRES_MS_MAX, Math.max(EXPIRES_MS_MIN, Math.ceil(leftMs))))
      await untilRung(leftMs, [signal, this.#signal], (ring) => (this.#ring = ring))
    }
    return this.#queue.splice(0, max)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#ring()
    // Return messages that were not handed out, so that another process gets them at once.
    for (const message of this.#queue.splice(0)) message.nak()
    await this.#messages?.close()
    await this.#fetching
  }

  async #take(messages: NatsMessages): Promise<void> {
    for await (const message of messages) {
      if (this.#closed) message.nak()
      else this.#queue.push(message)
      this.#ring()
    }
  }

  async #fetch(max: number, expires: number): Promise<void> {
    try {
      // After trouble the durable may be gone, so it is created again.
      this.#consumer ??= await this.#connect()
      this.#messages = await this.#consumer.fetch({ max_messages: max, expires, bind: true })
      await inTime(this.#take(this.#messages), expires + FORGOTTEN_MS, () => new Error('a fetch did not end'))
    } catch (error) {
      void this.#messages?.close().catch(() => {})
      this.#consumer = undefined
      this.#failure = { error }
    } finally {
      this.#messages = undefined
      this.#fetching = undefined
      this.#ring()
    }
  }
}
