import { STREAM_POLL_MS_MAX, STREAM_POLL_MS_MIN, STREAM_READ_BYTES } from './limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import type { KeyStore } from '../store/store.ts'
import type { Streams } from '../store/streams.ts'
import { endOf } from './head.ts'
import type { LiveStream, LiveStreams } from './live-streams.ts'

/** What a reader finds next. */
export type ReadStep =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  /** The stream has ended, and every byte was read. */
  | { readonly kind: 'ended'; readonly failed: boolean }
  /** Nobody produces: the lease has lapsed. */
  | { readonly kind: 'lapsed' }
  /** The producer in this process failed, and did not end the stream. */
  | { readonly kind: 'broken' }
  /** The record is gone, or is no longer this stream. */
  | { readonly kind: 'lost' }

export interface ReaderParts {
  readonly store: Pick<KeyStore, 'read'>
  readonly streams: Streams
  readonly live: LiveStreams
  readonly clock: Clock
  /** The client left. */
  readonly signal: AbortSignal
}

/** Reads one recorded stream from a position on. It follows a stream that is still being produced, here or elsewhere. */
export class StreamReader {
  readonly #parts: ReaderParts
  readonly #id: string
  readonly #life: string
  #position: number
  #read: Uint8Array[] = []
  #followed: LiveStream | undefined
  #pollMs = STREAM_POLL_MS_MIN
  #ending: { readonly failed: boolean } | undefined

  constructor(parts: ReaderParts, of: { readonly id: string; readonly life: string; readonly from: number }) {
    this.#parts = parts
    this.#id = of.id
    this.#life = of.life
    this.#position = of.from
  }

  /** The position behind the last byte that was read. */
  get position(): number {
    return this.#position
  }

  async next(): Promise<ReadStep> {
    const { signal } = this.#parts
    while (!signal.aborted) {
      const bytes =
        this.#read.shift() ?? this.#fromMemory() ?? (this.#isCurrent() ? undefined : await this.#fromStore())
      if (bytes) {
        this.#pollMs = STREAM_POLL_MS_MIN
        this.#position += bytes.byteLength
        return { kind: 'bytes', bytes }
      }
      if (this.#ending) return { kind: 'ended', ...this.#ending }
      const found = this.#isCurrent() ? undefined : await this.#look()
      if (found) return found
      if (!this.#ending) await this.#wait()
    }
    return { kind: 'lost' }
  }

  /** The stream of this process. A broken one stays known, because its reader must say so. */
  #live(): LiveStream | undefined {
    const live = this.#parts.live.get(this.#id)
    if (live?.life === this.#life) this.#followed = live
    return this.#followed
  }

  #fromMemory(): Uint8Array | undefined {
    return this.#live()?.from(this.#position) ?? undefined
  }

  /** This process produces the stream, and there is nothing new. */
  #isCurrent(): boolean {
    const live = this.#live()
    return live !== undefined && live.state === 'open' && live.end <= this.#position
  }

  async #fromStore(): Promise<Uint8Array | undefined> {
    const of = { id: this.#id, life: this.#life, from: this.#position, bytes: STREAM_READ_BYTES }
    for (const { start, bytes } of await this.#parts.streams.read(of)) {
      const skipped = Math.max(0, this.#position - start)
      if (start >= 0 && skipped < bytes.byteLength) this.#read.push(bytes.subarray(skipped))
    }
    return this.#read.shift()
  }

  /** Looks at the record. Undefined: go on reading. */
  async #look(): Promise<ReadStep | undefined> {
    const { record, answer } = await this.#parts.store.read({ id: this.#id })
    if (!record || record.life !== this.#life || record.state === 'unknown') return { kind: 'lost' }
    if (record.state === 'completed') return this.#atEnd(answer)
    if (this.#followed?.state === 'broken') return { kind: 'broken' }
    return (record.leaseLeftMs ?? 0) <= 0 ? { kind: 'lapsed' } : undefined
  }

  async #atEnd(answer: Answer | null): Promise<ReadStep | undefined> {
    const end = answer && endOf(answer)
    if (!end) return { kind: 'lost' }
    if (this.#position < end.recorded) {
      // Chunks came between the two reads. If there are none, another program removed them.
      const bytes = await this.#fromStore()
      if (!bytes) return { kind: 'lost' }
      this.#read.unshift(bytes)
      return undefined
    }
    this.#ending = { failed: end.failed }
    const last = answer.body?.subarray(this.#position - end.recorded)
    if (last && last.byteLength > 0) this.#read.push(last)
    return undefined
  }

  async #wait(): Promise<void> {
    const { clock, signal } = this.#parts
    const live = this.#live()
    if (this.#read.length > 0) return
    if (live && this.#isCurrent()) return live.changed(clock, STREAM_POLL_MS_MAX, signal)
    await sleep(clock, this.#pollMs, signal)
    this.#pollMs = Math.min(this.#pollMs * 2, STREAM_POLL_MS_MAX)
  }
}
