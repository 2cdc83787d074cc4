import { onceError, type OnceError } from '../errors.ts'
import type { Framing } from '../stream/framing.ts'
import { problemOf, type ProblemStyle } from './problem.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const EMPTY = new Uint8Array(0)

/**
 * The last frame of a stream without an orderly end: an `error` event, or a line with `error`. Bytes without frames have
 * no place for it, so their connection is broken off.
 */
export function endFrame(framing: Framing, error: OnceError, style: ProblemStyle, offset?: number): Uint8Array {
  if (framing === 'bytes') return EMPTY
  const problem = JSON.parse(decoder.decode(problemOf(error, style).body ?? EMPTY)) as object
  // A client that counts bytes must not count this frame: it is not recorded.
  const said = JSON.stringify(offset === undefined ? problem : { ...problem, offset })
  return encoder.encode(framing === 'events' ? `event: error\ndata: ${said}\n\n` : `{"error":${said}}\n`)
}

export function streamFailed(cause?: unknown): OnceError {
  return onceError('ONCE_STREAM_FAILED', { cause })
}

export function interrupted(cause?: unknown): OnceError {
  return onceError('ONCE_STREAM_INTERRUPTED', { cause })
}
