import { onceError } from '../errors.ts'

const KNOWN = new Map<string, 'gzip' | 'deflate'>([
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
])

/**
 * Decodes a body, because the same content compressed by two clients is the same request. If the coding is unknown, the
 * bytes stay as they are (`coded`), and are compared as bytes whatever their media type.
 */
export async function decodeBody(
  bytes: Uint8Array,
  coding: string | undefined,
  bytesMax: number,
): Promise<{ readonly bytes: Uint8Array; readonly coded: boolean }> {
  const name = (coding ?? 'identity').trim().toLowerCase()
  if (name === '' || name === 'identity' || bytes.byteLength === 0) return { bytes, coded: false }
  const format = KNOWN.get(name)
  if (!format) return { bytes, coded: true }
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format))
    return { bytes: await collect(stream, bytesMax, () => tooLarge(bytesMax)), coded: false }
  } catch (cause) {
    if ((cause as { name?: string } | null)?.name === 'OnceError') throw cause
    throw onceError('ONCE_BODY_INVALID', {
      detail: `The body is not ${name}, although its Content-Encoding says so`,
      cause,
    })
  }
}

/** Collects a stream's bytes and limits them, because a small compressed body may hold a very large one. */
export async function collect(
  stream: ReadableStream<Uint8Array>,
  bytesMax: number,
  tooMany: () => Error,
  onChunk?: (chunks: number) => void,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    try {
      const chunk = bytesOfChunk(value)
      size += chunk.byteLength
      if (size > bytesMax) throw tooMany()
      chunks.push(chunk)
      onChunk?.(chunks.length)
    } catch (error) {
      void reader.cancel().catch(() => {})
      throw error
    }
  }
  const [only] = chunks
  if (only && chunks.length === 1) return only
  const whole = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
  }
  return whole
}

const encoder = new TextEncoder()

/** Some hosts accept streams of strings. No host accepts anything but strings and bytes. */
export function bytesOfChunk(value: unknown): Uint8Array {
  if (typeof value === 'string') return encoder.encode(value)
  if (Object.prototype.toString.call(value) === '[object Uint8Array]') return value as Uint8Array
  throw new TypeError('A byte stream returned a chunk that is neither bytes nor text')
}

export function tooLarge(bytesMax: number): Error {
  return onceError('ONCE_BODY_TOO_LARGE', { detail: `The body has more than ${bytesMax} bytes` })
}
