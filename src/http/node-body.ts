import type { IncomingMessage } from 'node:http'
import { onceError } from '../errors.ts'
import { BODY_BYTES_MAX } from '../limits.ts'
import { decodeBody, tooLarge } from './content-coding.ts'
import { parseMediaType } from '../key/media-type.ts'

/** What is known of a body: its bytes, or what a parser left of them. */
export interface NodeBody {
  readonly body: Uint8Array | string | undefined
  readonly parsed: unknown
  readonly coded: boolean
  /** A digest stands for them. */
  readonly digested?: boolean
}

/**
 * The body of a request, complete. Where a parser ran first its result is used, with the raw bytes where somebody kept
 * them (`rawBody`); where none ran, the bytes are read and put back, so that a parser or the handler can read them too.
 */
export function bodyOf(
  req: IncomingMessage,
  seen: { readonly body?: unknown; readonly rawBody?: unknown },
): NodeBody | Promise<NodeBody> {
  if (isBytes(seen.rawBody)) return { body: seen.rawBody, parsed: undefined, coded: false }
  if (!hasBody(req)) return { body: undefined, parsed: undefined, coded: false }
  if (!req.readableDidRead && !req.readableEnded) return unread(req)
  const { body } = seen
  if (isBytes(body)) return { body, parsed: undefined, coded: false }
  // A multipart parser keeps the fields and hides the files.
  if (body === undefined || parseMediaType(req.headers['content-type']).essence.startsWith('multipart/')) {
    throw onceError('ONCE_BODY_UNSEEN', {
      detail: 'The body was read before this route and its bytes are lost. Mount the parser after it, or set rawBody',
    })
  }
  return { body: undefined, parsed: body, coded: false }
}

async function unread(req: IncomingMessage): Promise<NodeBody> {
  const wire = await readAndReturn(req)
  const coding = req.headers['content-encoding']
  if (coding === undefined) return { body: wire, parsed: undefined, coded: false }
  const { bytes, coded } = await decodeBody(wire, coding)
  return { body: bytes, parsed: undefined, coded }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

function isBytes(value: unknown): value is Uint8Array | string {
  return typeof value === 'string' || value instanceof Uint8Array
}

/**
 * Reads everything and puts it back in front of the stream's end, in the same turn in which the last bytes were read:
 * the end is announced one turn later, and only if nothing is left.
 */
function readAndReturn(req: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const stop = (): void => {
      req.removeListener('readable', read)
      req.removeListener('end', end)
      req.removeListener('error', fail)
      req.removeListener('close', fail)
    }
    const end = (): void => {
      stop()
      resolve(Buffer.concat(chunks))
    }
    const fail = (): void => {
      stop()
      reject(onceError('ONCE_BODY_INVALID', { detail: 'The body ended early' }))
    }
    const read = (): void => {
      for (let chunk = req.read() as Buffer | null; chunk !== null; chunk = req.read() as Buffer | null) {
        chunks.push(chunk)
        size += chunk.byteLength
        if (size > BODY_BYTES_MAX) {
          stop()
          req.resume()
          return reject(tooLarge())
        }
      }
      if (!req.complete || size === 0) return
      stop()
      const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
      req.unshift(whole)
      resolve(whole)
    }
    req.on('readable', read)
    req.on('end', end)
    req.on('error', fail)
    req.on('close', fail)
  })
}
