import { STREAM_TAIL_BYTES } from './limits.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import type { StoredChunk } from '../store/streams.ts'

/** One stream that this process produces. Its newest committed bytes are here, for the clients that follow it. */
export class LiveStream {
  readonly life: string
  #tail: StoredChunk[] = []
  #tailBytes = 0
  #end: number
  #state: 'open' | 'ended' | 'broken' = 'open'
  readonly #waiting = new Set<AbortController>()

  constructor(life: string, at: number) {
    this.life = life
    this.#end = at
  }

  /** `broken`: the producer failed, and the stream was not ended. */
  get state(): 'open' | 'ended' | 'broken' {
    return this.#state
  }

  /** The position behind the last committed byte. */
  get end(): number {
    return this.#end
  }

  /** How many followers wait for the next change. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** A chunk is committed. */
  add(chunk: StoredChunk): void {
    this.#end = chunk.start + chunk.bytes.byteLength
    this.#tail.push(chunk)
    this.#tailBytes += chunk.bytes.byteLength
    while (this.#tailBytes > STREAM_TAIL_BYTES) this.#tailBytes -= this.#tail.shift()?.bytes.byteLength ?? Infinity
    if (this.#tail.length === 0) this.#tailBytes = 0
    this.#wake()
  }

  close(state: 'ended' | 'broken'): void {
    this.#state = state
    this.#wake()
  }

  /** The committed bytes from a position on. Null: they are only in the store. */
  from(position: number): Uint8Array | null {
    const chunk = this.#tail.find(({ start, bytes }) => position >= start && position < start + bytes.byteLength)
    return chunk ? chunk.bytes.subarray(position - chunk.start) : null
  }

  /** Resolves when something changed, or after a while. */
  async changed(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
    const wait = new AbortController()
    const end = (): void => wait.abort()
    this.#waiting.add(wait)
    signal?.addEventListener('abort', end, { once: true })
    if (signal?.aborted) end()
    await sleep(clock, ms, wait.signal)
    signal?.removeEventListener('abort', end)
    // A stream that stands still must not collect the waits that ended without a change.
    this.#waiting.delete(wait)
  }

  #wake(): void {
    for (const wait of this.#waiting) wait.abort()
  }
}

/** The streams that this process produces, by operation. */
export class LiveStreams {
  readonly #live = new Map<string, LiveStream>()

  get(id: string): LiveStream | undefined {
    return this.#live.get(id)
  }

  open(id: string, life: string, at: number): LiveStream {
    const live = new LiveStream(life, at)
    this.#live.set(id, live)
    return live
  }

  close(id: string, live: LiveStream, state: 'ended' | 'broken'): void {
    live.close(state)
    if (this.#live.get(id) === live) this.#live.delete(id)
  }
}
