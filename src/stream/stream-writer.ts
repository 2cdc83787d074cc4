import { isOnceError, onceError } from '../errors.ts'
import {
  STREAM_BYTES_MAX,
  STREAM_CHUNK_BYTES_MAX,
  STREAM_QUEUE_BYTES,
  STREAM_RETRY_MS_MAX,
  STREAM_RETRY_MS_MIN,
} from './limits.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import { HEAD, type Streams } from '../store/streams.ts'
import { Framer, type Framing, joined } from './framing.ts'
import { encodeHead, type StreamHead } from './head.ts'
import type { LiveStream } from './live-streams.ts'

/** The attempt that writes. The database compares its token with every chunk. */
export interface StreamHolder {
  readonly id: string
  readonly token: string
  readonly life: string
  /** Throws when the operation has ended. */
  check(): void
  /** The lease could not be renewed in time: another attempt may hold it. */
  isOver(): boolean
  /** Aborts the operation because the lease is lost, and returns the error to throw. */
  lost(): Error
}

export interface WriterParts {
  readonly streams: Streams
  readonly clock: Clock
  readonly live: LiveStream
  readonly holder: StreamHolder
}

/**
 * Writes one stream. One chunk is committed at a time, and whatever the producer writes meanwhile becomes the next
 * chunk. So a fast producer does not pay a commit for each write. Nobody sees a byte that is not committed.
 */
export class StreamWriter {
  readonly #parts: WriterParts
  readonly #framer: Framer
  #queue: Uint8Array[] = []
  #queued = 0
  /** The position behind the last committed byte. */
  #committed: number
  #flushing: Promise<void> | undefined
  #failure: unknown
  #room: (() => void)[] = []
  /** At the end, the last piece is stored with the answer. */
  #isEnding = false

  constructor(parts: WriterParts, framing: Framing, at: number) {
    this.#parts = parts
    this.#framer = new Framer(framing, at)
    this.#committed = at
  }

  get committed(): number {
    return this.#committed
  }

  /** Commits status and headers. */
  async begin(head: StreamHead): Promise<void> {
    await this.#append(HEAD, encodeHead(head))
  }

  /** Takes bytes. Resolves when the producer may go on. Rejects when the stream cannot go on. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#check()
    if (bytes.byteLength === 0) return
    for (const piece of this.#framer.push(bytes)) {
      // The caller may use its buffer again.
      this.#queue.push(piece.slice())
      this.#queued += piece.byteLength
    }
    if (this.#framer.at > STREAM_BYTES_MAX)
      throw onceError('ONCE_ANSWER_TOO_LARGE', { detail: `The stream has more than ${STREAM_BYTES_MAX} bytes` })
    if (this.#queued > 0) this.#flushing ??= this.#flush()
    while (this.#queued > STREAM_QUEUE_BYTES && this.#failure === undefined)
      await new Promise<void>((resolve) => this.#room.push(resolve))
    this.#check()
  }

  /**
   * Waits until nearly everything is committed, and returns the last bytes, to be stored with the answer. `rest` is a
   * frame that has not ended.
   */
  async end(): Promise<{ readonly whole: Uint8Array; readonly rest: Uint8Array }> {
    const rest = this.#framer.rest()
    this.#isEnding = true
    await this.drain()
    const whole = joined(this.#queue)
    this.#queue = []
    this.#queued = 0
    return { whole, rest }
  }

  /** Waits until every whole frame is committed. A frame that has not ended is dropped. */
  async drain(): Promise<void> {
    await this.#flushing
    this.#check()
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  async #flush(): Promise<void> {
    try {
      // Writes of the same turn share a commit.
      await Promise.resolve()
      while (this.#queued > (this.#isEnding ? STREAM_CHUNK_BYTES_MAX : 0)) {
        const pieces: Uint8Array[] = []
        let size = 0
        for (
          let next = this.#queue[0];
          next && size + next.byteLength <= STREAM_CHUNK_BYTES_MAX;
          next = this.#queue[0]
        ) {
          pieces.push(next)
          size += next.byteLength
          this.#queue.shift()
        }
        const bytes = joined(pieces)
        const start = this.#committed
        await this.#append(start, bytes)
        this.#committed = start + size
        this.#queued -= size
        this.#parts.live.add({ start, bytes })
        this.#makeRoom()
      }
    } catch (error) {
      this.#failure = error
      this.#makeRoom()
    } finally {
      this.#flushing = undefined
    }
  }

  #makeRoom(): void {
    for (const resolve of this.#room.splice(0)) resolve()
  }

  /** A chunk may be sent again, because its position is its key. So a lost reply or a short outage does no harm. */
  async #append(start: number, bytes: Uint8Array): Promise<void> {
    const { streams, holder, clock } = this.#parts
    const { id, token, life } = holder
    for (let pauseMs = STREAM_RETRY_MS_MIN; ; pauseMs = Math.min(pauseMs * 2, STREAM_RETRY_MS_MAX)) {
      holder.check()
      try {
        if (await streams.append({ id, token, life, start, bytes })) return
      } catch (error) {
        if (holder.isOver() || !isOnceError(error) || !error.retryable) throw error
        await sleep(clock, pauseMs)
        continue
      }
      throw holder.lost()
    }
  }
}
