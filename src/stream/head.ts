import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'

/** Status and headers of a recorded stream, which leave once, before the first byte. */
export type StreamHead = Pick<Answer, 'status' | 'headers'>

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function encodeHead({ status, headers }: StreamHead): Uint8Array {
  return encoder.encode(JSON.stringify([status, headers]))
}

export function decodeHead(bytes: Uint8Array): StreamHead {
  const [status, headers] = JSON.parse(decoder.decode(bytes)) as [number, StreamHead['headers']]
  return { status, headers }
}

/** Our own note in the headers of a stored answer. No real header begins with a colon. */
const STREAM = ':stream'

/** How a recorded stream ended. Its last bytes are the body of the stored answer. */
export interface StreamEnd {
  /** The number of bytes in chunks. */
  readonly recorded: number
  readonly failed: boolean
}

export function endOf({ headers }: Pick<Answer, 'headers'>): StreamEnd | null {
  const note = headers.find(([name]) => name === STREAM)?.[1]
  if (note === undefined) return null
  const [recorded, how] = note.split(' ')
  const bytes = Number(recorded)
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    throw onceError('ONCE_ANSWER_INVALID', { detail: 'A stored stream has an invalid length' })
  return { recorded: bytes, failed: how === 'failed' }
}

export function withEnd(headers: Answer['headers'], { recorded, failed }: StreamEnd): Answer['headers'] {
  return [...headers, [STREAM, `${recorded} ${failed ? 'failed' : 'ended'}`]]
}

export function isEndNote(name: string): boolean {
  return name === STREAM
}
