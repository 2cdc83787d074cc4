import type { IncomingMessage } from 'node:http'
import { onceError } from '../errors.ts'
import { decodeBody, tooLarge } from './content-coding.ts'
import { parseMediaType } from '../key/media-type.ts'

/** A body as its bytes, or as the result of a parser. */
export interface NodeBody {
  readonly body: Uint8Array | string | undefined
  readonly parsed: unknown
  readonly coded: boolean
  /** The digest replaces the bytes in the fingerprint. */
  readonly digested?: boolean
}

/** Checks the received bytes. True: their digest identifies them. */
export type CheckBytes = (wire: Uint8Array) => Promise<boolean>

/**
 * The complete body of a request. If a parser ran first, its result is used, with the raw bytes if the application kept
 * them (`rawBody`). Otherwise the bytes are read and put back, so that a parser or the handler can read them too.
 */
export function bodyOf(
  req: IncomingMessage,
  seen: { readonly body?: unknown; readonly rawBody?: unknown },
  bytesMax: number,
  check?: CheckBytes,
): NodeBody | Promise<NodeBody> {
  // The client left before the end. Over HTTP/2 the bytes so far look like a whole body.
  if (isOverHttp2(req) && req.stream.aborted) throw endedEarly()
  if (isBeingRead(req) && hasBody(req)) throw unseen()
  if (isBytes(seen.rawBody)) return kept(req, seen.rawBody, check)
  if (!hasBody(req)) return { body: undefined, parsed: undefined, coded: false }
  if (!req.readableDidRead && !req.readableEnded) return unread(req, bytesMax, check)
  const { body } = seen
  if (isBytes(body)) return kept(req, body, check)
  // A multipart parser keeps the fields and hides the files.
  if (body === undefined || parseMediaType(req.headers['content-type']).essence.startsWith('multipart/')) throw unseen()
  return { body: undefined, parsed: body, coded: false }
}

/** The result of a parser. Its digest is checked if the raw bytes are there. */
function kept(req: IncomingMessage, body: Uint8Array | string, check?: CheckBytes): NodeBody | Promise<NodeBody> {
  const found = { body, parsed: undefined, coded: false }
  if (!check || typeof body === 'string' || req.headers['content-encoding'] !== undefined) return found
  return check(body).then(() => found)
}

async function unread(req: IncomingMessage, bytesMax: number, check?: CheckBytes): Promise<NodeBody> {
  if (req.destroyed) throw endedEarly()
  const wire = await (isOverHttp2(req) ? collectPushed(req, bytesMax) : readAndReturn(req, bytesMax))
  const digested = check !== undefined && (await check(wire))
  const coding = req.headers['content-encoding']
  if (coding === undefined) return { body: wire, parsed: undefined, coded: false, digested }
  const { bytes, coded } = await decodeBody(wire, coding, bytesMax)
  return { body: bytes, parsed: undefined, coded, digested }
}

function hasBody(req: IncomingMessage): boolean {
  const { headers } = req
  // HTTP/2 requests need not announce a body.
  if (isOverHttp2(req)) return !req.stream.endAfterHeaders
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

interface Http2Request extends IncomingMessage {
  readonly stream: { readonly endAfterHeaders: boolean; readonly aborted: boolean }
}

function isOverHttp2(req: IncomingMessage): req is Http2Request {
  return req.httpVersionMajor >= 2
}

/** Whether a listener is still reading the body. Then its bytes so far are not the whole body. */
function isBeingRead(req: IncomingMessage): boolean {
  return !req.readableEnded && (req.listenerCount('data') > 0 || req.listenerCount('readable') > 0)
}

function isBytes(value: unknown): value is Uint8Array | string {
  return typeof value === 'string' || value instanceof Uint8Array
}

type Chunk = Buffer | string

/**
 * Reads all bytes and puts them back before the stream's end. This happens in the turn in which the last bytes were
 * read, because Node announces the end one turn later, and only if nothing is left. An empty body is not read, so that
 * the handler sees its end.
 */
async function readAndReturn(req: IncomingMessage, bytesMax: number): Promise<Uint8Array> {
  // In the next turn Node has parsed the bytes that arrived with the head.
  await Promise.resolve()
  const isEmpty = (): boolean => isWhole(req) && req.readableLength === 0
  if (isEmpty()) return new Uint8Array(0)
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    // The application set an encoding, so the bytes are put back as text.
    const encoding = req.readableEncoding ?? undefined
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
      reject(endedEarly())
    }
    const read = (): void => {
      if (size === 0 && isEmpty()) return end()
      for (let chunk = req.read() as Chunk | null; chunk !== null; chunk = req.read() as Chunk | null) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk
        chunks.push(bytes)
        size += bytes.byteLength
        if (size > bytesMax) {
          stop()
          req.resume()
          return reject(tooLarge(bytesMax))
        }
      }
      if (!isWhole(req) || size === 0) return
      stop()
      const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
      req.unshift(encoding === undefined ? whole : whole.toString(encoding), encoding)
      resolve(whole)
    }
    req.on('readable', read)
    req.on('end', end)
    req.on('error', fail)
    req.on('close', fail)
  })
}

/**
 * Whether the request has ended. `complete` does not say so: serverless hosts set it before their bytes are read, and
 * `inject` of test tools never sets it.
 */
function isWhole(req: IncomingMessage): boolean {
  return (Reflect.get(req, '_readableState') as { readonly ended: boolean }).ended
}

/** Over HTTP/2 the end is pushed like all data, so the collected bytes are put before it. */
function collectPushed(req: Http2Request, bytesMax: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const { push } = req
    const chunks: Buffer[] = []
    let size = 0
    const stop = (): void => {
      req.push = push
      req.removeListener('close', fail)
      req.removeListener('error', fail)
    }
    const fail = (): void => {
      stop()
      reject(endedEarly())
    }
    req.on('close', fail)
    req.on('error', fail)
    req.push = (chunk: Buffer | null) => {
      if (chunk !== null) {
        size += chunk.byteLength
        if (size <= bytesMax) chunks.push(chunk)
        else reject(tooLarge(bytesMax))
        return true
      }
      stop()
      const whole = Buffer.concat(chunks)
      // A stream that was reset ends like any other.
      if (req.stream.aborted) reject(endedEarly())
      else resolve(whole)
      if (whole.byteLength > 0) Reflect.apply(push, req, [whole])
      return Reflect.apply(push, req, [null])
    }
    // Ask for the first bytes without taking any.
    req.read(0)
  })
}

function unseen(): Error {
  return onceError('ONCE_BODY_UNSEEN', {
    detail:
      'The body was read before this route, and its bytes are lost. Mount the parser after the route, or set rawBody',
  })
}

function endedEarly(): Error {
  return onceError('ONCE_BODY_INVALID', { detail: 'The body ended early' })
}
