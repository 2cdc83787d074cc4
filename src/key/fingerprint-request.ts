import { isOnceError, onceError } from '../errors.ts'
import { createSha256, type Sha256, sha256Hex } from '../platform/sha256.ts'
import { canonicalText } from './canonical-text.ts'
import { canonicalValue, isBeyondLimits } from './canonical-value.ts'
import { canonicalDigest } from './digest-field.ts'
import { FINGERPRINT_VERSION } from './fingerprint.ts'
import { canonicalForm } from './form.ts'
import { frame } from './frame.ts'
import { latin1 } from './latin1.ts'
import { isJson, type MediaType, parseMediaType } from './media-type.ts'
import { parseMultipart } from './multipart.ts'
import { uuidOf } from './uuid.ts'

/** The parts of a request that define its meaning, without the body. */
export interface RequestHead {
  readonly method: string
  /** The path as the client sent it, before a router cut off a prefix, without host and query. */
  readonly path: string
  /** Everything after the `?`, unchanged. */
  readonly query?: string | undefined
  readonly contentType?: string | undefined
  /** Only the headers that change the meaning of the request. The caller chooses them. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
}

export interface RequestParts extends RequestHead {
  /** The bytes after content-decoding. */
  readonly body?: Uint8Array | string | undefined
  /**
   * The parsed body, if its bytes are lost. JSON has the same fingerprint as from its bytes. But repeated members and
   * digits that a double cannot hold are no longer visible.
   */
  readonly parsed?: unknown
  /**
   * JSON pointers to members that change between attempts. They are left out of a JSON body, and ignored for other
   * bodies.
   */
  readonly ignore?: readonly string[] | undefined
  /** A `Content-Digest` or `Repr-Digest` value that replaces the body. */
  readonly digest?: string | undefined
}

type BodyKind = 'raw' | 'json' | 'form' | 'multipart' | 'parsed' | 'digest'

/**
 * The fingerprint of an HTTP request: method, path, sorted query, chosen headers, media type without parameters, and
 * the body. The media type decides how the body counts, so that a retry with another order of members or another
 * boundary is the same request. Throws ONCE_BODY_INVALID if the body does not match its content type.
 */
export function fingerprintRequest(request: RequestParts): string {
  const media = parseMediaType(request.contentType)
  const { ignore, digest, parsed } = request
  const body = typeof request.body === 'string' ? new TextEncoder().encode(request.body) : request.body
  if (digest !== undefined) return finish(request, media, 'digest', canonicalDigest(digest))
  if (body === undefined && parsed !== undefined) {
    return finish(request, media, isJson(media) ? 'json' : 'parsed', canonicalParsed(parsed, ignore))
  }
  if (body === undefined || body.length === 0) return finish(request, media, 'raw', '')
  if (isJson(media)) return finish(request, media, 'json', canonicalText(body, ignore))
  if (media.essence === 'application/x-www-form-urlencoded') {
    return finish(request, media, 'form', canonicalForm(latin1(body)))
  }
  if (media.essence.startsWith('multipart/')) return fingerprintMultipart(request, media, body)
  return hexToFingerprint(
    createSha256()
      .update(writeHead(request, media, 'raw'))
      .update(body),
  )
}

/** A parser accepts more than we do. A parsed value that cannot be compared is the client's mistake, too. */
function canonicalParsed(parsed: unknown, ignore: readonly string[] | undefined): string {
  try {
    return canonicalValue(parsed, ignore)
  } catch (cause) {
    if (!isOnceError(cause) || !isBeyondLimits(cause)) throw cause
    throw onceError('ONCE_BODY_INVALID', { detail: cause.message.slice(cause.code.length + 1), cause })
  }
}

/** Computes a fingerprint from a stream. */
export interface StreamFingerprint {
  update(chunk: Uint8Array): StreamFingerprint
  digest(): string
}

/** The same for a body that is not held in memory. Only its bytes count, whatever its media type. */
export function createFingerprint(head: RequestHead): StreamFingerprint {
  const hash = createSha256().update(writeHead(head, parseMediaType(head.contentType), 'raw'))
  const self: StreamFingerprint = {
    update(chunk) {
      hash.update(chunk)
      return self
    },
    digest: () => hexToFingerprint(hash),
  }
  return self
}

function fingerprintMultipart(request: RequestParts, media: MediaType, body: Uint8Array): string {
  const hash = createSha256().update(writeHead(request, media, 'multipart'))
  for (const { headers, bytes } of parseMultipart(body, media.boundary)) {
    hash.update(`${headers.length};${headers.map(frame).join('')}${bytes.length}:`).update(bytes)
  }
  return hexToFingerprint(hash)
}

const PREFIX = `eo:fp:${FINGERPRINT_VERSION}:request;`

/** The body comes last and needs no length, so that a stream can be hashed as it arrives. */
function writeHead(head: RequestHead, media: MediaType, kind: BodyKind): string {
  const target = frame(head.method.toUpperCase()) + frame(head.path) + frame(canonicalForm(head.query ?? ''))
  return `${PREFIX}${target}${frame(media.essence)}${frame(kind)}${writeHeaders(head.headers ?? {})}`
}

function writeHeaders(headers: NonNullable<RequestHead['headers']>): string {
  const lines: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue
    // Servers join repeated headers with commas, so a list of values counts as the same header.
    const values = typeof value === 'string' ? [value] : value
    lines.push(frame(name.toLowerCase()) + frame(values.map((each) => each.trim()).join(', ')))
  }
  return `${lines.length};${lines.sort().join('')}`
}

function finish(head: RequestHead, media: MediaType, kind: BodyKind, text: string): string {
  return uuidOf(sha256Hex(writeHead(head, media, kind) + text))
}

function hexToFingerprint(hash: Sha256): string {
  return uuidOf(hash.digestHex())
}
