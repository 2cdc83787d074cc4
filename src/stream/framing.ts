import { onceError } from '../errors.ts'
import { STREAM_CHUNK_BYTES_MAX } from './limits.ts'
import { eventsIn, idOf, LIBRARY_ID, withId } from './event-frame.ts'
import type { StreamHead } from './head.ts'

/** What a stream consists of: events (`text/event-stream`), lines (NDJSON), or bytes without frames. */
export type Framing = 'events' | 'lines' | 'bytes'

const LINES = new Set(['application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/json-seq'])

export function framingOf({ headers }: Pick<StreamHead, 'headers'>): Framing {
  const value = (wanted: string): string | undefined => headers.find(([name]) => name === wanted)?.[1]
  // Frames are not visible in compressed bytes.
  if (value('content-encoding') !== undefined) return 'bytes'
  const type = (value('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type === 'text/event-stream') return 'events'
  return LINES.has(type) ? 'lines' : 'bytes'
}

/**
 * Cuts what a producer writes into pieces that may be recorded. A piece ends where a frame ends, so the next attempt
 * appends whole frames behind whole frames. No piece is larger than a chunk.
 */
export class Framer {
  readonly #framing: Framing
  /** The parts of a frame that has not ended. */
  #partial: Uint8Array[] = []
  #held = 0
  /** The position of the next piece. */
  #at: number
  #isMarkPassed = false

  constructor(framing: Framing, at: number) {
    this.#framing = framing
    this.#at = at
  }

  /** The position behind the last piece. */
  get at(): number {
    return this.#at
  }

  push(bytes: Uint8Array): Uint8Array[] {
    if (this.#framing === 'bytes') return this.#placed(piecesOf(bytes))
    // No frame ends without a newline. So a frame that comes in many parts is joined once for each of its lines.
    if (!bytes.includes(NEWLINE)) return this.#hold(bytes)
    const all = joined([...this.#taken(), bytes])
    const { frames, rest } = this.#framing === 'events' ? this.#events(this.#unmarked(all)) : linesIn(all)
    this.#hold(rest)
    return this.#framing === 'events' ? frames : this.#placed(frames)
  }

  /** The caller may use its buffer again. */
  #hold(bytes: Uint8Array): Uint8Array[] {
    this.#held += bytes.byteLength
    if (this.#held > STREAM_CHUNK_BYTES_MAX) throw frameTooLarge(this.#framing)
    if (bytes.byteLength > 0) this.#partial.push(bytes.slice())
    return []
  }

  #taken(): Uint8Array[] {
    this.#held = 0
    return this.#partial.splice(0)
  }

  /** The bytes of a frame that has not ended. At the end of a stream they leave as they are. */
  rest(): Uint8Array {
    const rest = joined(this.#taken())
    this.#at += rest.byteLength
    return rest
  }

  /** Without the byte order mark. Behind our id, or behind an earlier attempt, it would be a part of a field's name. */
  #unmarked(all: Uint8Array): Uint8Array {
    const isMarked = !this.#isMarkPassed && MARK.every((byte, at) => at >= all.byteLength || all[at] === byte)
    if (isMarked && all.byteLength < MARK.length) return all
    this.#isMarkPassed = true
    return isMarked ? all.subarray(MARK.length) : all
  }

  #events(all: Uint8Array): { frames: Uint8Array[]; rest: Uint8Array } {
    const { frames, rest } = eventsIn(all)
    const named = frames.map((frame) => {
      const id = idOf(frame)
      if (id !== null && LIBRARY_ID.test(id))
        throw onceError('ONCE_ANSWER_INVALID', { detail: `An event has the id ${id}. The library reserves this form` })
      const made = id === null ? withId(frame, this.#at) : frame
      if (made.byteLength > STREAM_CHUNK_BYTES_MAX) throw frameTooLarge('events')
      this.#at += made.byteLength
      return made
    })
    return { frames: named, rest }
  }

  #placed(pieces: Uint8Array[]): Uint8Array[] {
    for (const { byteLength } of pieces) this.#at += byteLength
    return pieces
  }
}

const NEWLINE = 10
/** U+FEFF in UTF-8. An event stream may begin with it. */
const MARK = [0xef, 0xbb, 0xbf]

function piecesOf(bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let from = 0; from < bytes.byteLength; from += STREAM_CHUNK_BYTES_MAX)
    pieces.push(bytes.subarray(from, from + STREAM_CHUNK_BYTES_MAX))
  return pieces
}

function linesIn(all: Uint8Array): { frames: Uint8Array[]; rest: Uint8Array } {
  const frames: Uint8Array[] = []
  const end = all.lastIndexOf(NEWLINE) + 1
  for (let from = 0; from < end;) {
    const to =
      end - from <= STREAM_CHUNK_BYTES_MAX ? end : all.lastIndexOf(NEWLINE, from + STREAM_CHUNK_BYTES_MAX - 1) + 1
    if (to <= from) throw frameTooLarge('lines')
    frames.push(all.subarray(from, to))
    from = to
  }
  return { frames, rest: all.subarray(end) }
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts
  if (parts.length === 1 && only) return only
  const filled = parts.filter(({ byteLength }) => byteLength > 0)
  if (filled.length === 1) return filled[0] as Uint8Array
  const all = new Uint8Array(filled.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const part of filled) {
    all.set(part, at)
    at += part.byteLength
  }
  return all
}

function frameTooLarge(framing: Framing): Error {
  const what = framing === 'events' ? 'An event' : 'A line'
  return onceError('ONCE_ANSWER_TOO_LARGE', {
    detail: `${what} of the stream has more than ${STREAM_CHUNK_BYTES_MAX} bytes`,
  })
}
