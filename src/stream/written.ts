import { STREAM_READ_BYTES } from './limits.ts'
import { HEAD, type Streams } from '../store/streams.ts'
import { eventsIn, idOf, lastIdIn } from './event-frame.ts'
import { decodeHead, type StreamHead } from './head.ts'

/** The bytes that earlier attempts have recorded. Clients may already have them, so they are never written again. */
export interface Written extends AsyncIterable<Uint8Array> {
  /** The number of bytes. 0: nothing was recorded. */
  readonly bytes: number
  /** The id of the last recorded event of an event stream. */
  readonly lastEventId: string | null
  /** Everything that was recorded, as text. */
  text(): Promise<string>
}

const LATIN1_MAX = 0xff

interface Of {
  readonly id: string
  readonly life: string
}

/** Reads chunk after chunk, from the one that holds a position. */
async function* chunksOf(streams: Streams, of: Of, from = 0): AsyncGenerator<{ start: number; bytes: Uint8Array }> {
  for (let at = from; ;) {
    const found = (await streams.read({ ...of, from: at, bytes: STREAM_READ_BYTES })).filter(
      ({ start, bytes }) => start + bytes.byteLength > at && start >= 0,
    )
    const last = found.at(-1)
    if (!last) return
    yield* found
    at = last.start + last.bytes.byteLength
  }
}

/** The recorded head. Null: nothing was recorded. */
export async function readHead(streams: Streams, of: Of): Promise<StreamHead | null> {
  const [first] = await streams.read({ ...of, from: HEAD, bytes: 1 })
  return first?.start === HEAD ? decodeHead(first.bytes) : null
}

export async function readWritten(streams: Streams, of: Of): Promise<Written> {
  // The last chunk ends where the stream ends.
  const last = (await streams.read({ ...of, from: Number.MAX_SAFE_INTEGER, bytes: 1 })).at(-1)
  const recorded = last && last.start >= 0 ? last : undefined
  return {
    bytes: recorded ? recorded.start + recorded.bytes.byteLength : 0,
    lastEventId: recorded ? lastIdIn(recorded.bytes) : null,
    async *[Symbol.asyncIterator]() {
      for await (const { bytes } of chunksOf(streams, of)) yield bytes
    },
    async text() {
      const decoder = new TextDecoder()
      let text = ''
      for await (const { bytes } of chunksOf(streams, of)) text += decoder.decode(bytes, { stream: true })
      return text + decoder.decode()
    },
  }
}

export const NOTHING_WRITTEN: Written = {
  bytes: 0,
  lastEventId: null,
  async *[Symbol.asyncIterator]() {},
  text: () => Promise.resolve(''),
}

/** The position behind the event with this id. Null: no recorded event has it. `last`: bytes behind the chunks. */
export async function positionAfter(
  streams: Streams,
  of: Of,
  id: string,
  last: { readonly start: number; readonly bytes: Uint8Array } | null,
): Promise<number | null> {
  const wanted = new Set([id, utf8Of(id)])
  const search = ({ start, bytes }: { start: number; bytes: Uint8Array }): number | null => {
    let at = start
    for (const frame of eventsIn(bytes).frames) {
      at += frame.byteLength
      const own = idOf(frame)
      // A header has no spaces around its value.
      if (own !== null && wanted.has(own.replaceAll(/^[ \t]+|[ \t]+$/g, ''))) return at
    }
    return null
  }
  for await (const chunk of chunksOf(streams, of)) {
    const found = search(chunk)
    if (found !== null) return found
  }
  return last && search(last)
}

/** Browsers send the id in UTF-8, and servers read a header as Latin-1. Other text stays as it is. */
function utf8Of(header: string): string {
  const codes = Array.from(header, (character) => character.charCodeAt(0))
  if (codes.some((code) => code > LATIN1_MAX)) return header
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(codes))
  } catch {
    return header
  }
}
