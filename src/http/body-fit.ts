/** The headers of an answer that describe its body. */
export interface AboutBody {
  readonly length: unknown
  readonly coding: unknown
  /** Transfer-Encoding and Trailer. A handler cannot set them on a Response. */
  readonly transfer?: unknown
  readonly trailer?: unknown
}

/** Whether an answer with this status never has a body. A Response with a body refuses such a status. */
export function isBodyless(status: number): boolean {
  return status === 204 || status === 205 || status === 304
}

/**
 * How the headers contradict the bytes. Null: they do not. After a wrong length, a client would mix this answer with
 * the next one. With a wrong coding, no client can read the body.
 */
export function misfitOf(
  status: number,
  method: string | undefined,
  said: AboutBody,
  body: Uint8Array | null,
): string | null {
  const isBare = status === 204 || status === 304 || method === 'HEAD'
  const misframed = misframedBy(said, isBare)
  if (misframed || isBare) return misframed
  if (!fitsLength(said.length, body)) return 'The Content-Length of the answer does not match its body'
  if (!fitsCoding(said.coding, body)) return 'The Content-Encoding of the answer does not match its body'
  return null
}

/** Node sends some invalid values, and refuses others when the answer leaves. By then the commit is done. */
function misframedBy({ length, transfer, trailer }: AboutBody, isBare: boolean): string | null {
  const isSized = length !== undefined && length !== null
  if (isSized && !/^\d+$/.test(String(length).trim())) return 'The Content-Length of the answer is not a number'
  if (transfer !== undefined && (isSized || !/^\s*chunked\s*$/i.test(String(transfer))))
    return 'The Transfer-Encoding of the answer is not chunked alone'
  if (trailer !== undefined && (isSized || isBare)) return 'The answer has trailers without a chunked body'
  return null
}

function fitsLength(length: unknown, body: Uint8Array | null): boolean {
  if (length === undefined || length === null) return true
  return Number(length) === (body?.byteLength ?? 0)
}

/** Only gzip can be recognized by its first bytes. Deflate often has no mark, and Brotli never has one. */
function fitsCoding(coding: unknown, body: Uint8Array | null): boolean {
  if (coding === undefined || coding === null || body === null || body.byteLength === 0) return true
  return !/^\s*(x-)?gzip\s*$/i.test(String(coding)) || (body[0] === 0x1f && body[1] === 0x8b)
}
