/** What a head says about its body. */
export interface AboutBody {
  readonly length: unknown
  readonly coding: unknown
  /** Transfer-Encoding and Trailer: a Response has no say in them. */
  readonly transfer?: unknown
  readonly trailer?: unknown
}

/**
 * What a head says wrongly about its bytes; null where it is right. After a wrong length a client would take the next
 * answer for the rest of this one, or the rest of this one for the next. With a wrong coding nobody can read it.
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
  if (!fitsLength(said.length, body)) return 'Its Content-Length is not that of its bytes'
  if (!fitsCoding(said.coding, body)) return 'Its Content-Encoding is not that of its bytes'
  return null
}

/** Node would send some of it as it is, and refuse the rest when the answer leaves, which is after the commit. */
function misframedBy({ length, transfer, trailer }: AboutBody, isBare: boolean): string | null {
  const isSized = length !== undefined && length !== null
  if (isSized && !/^\d+$/.test(String(length).trim())) return 'Its Content-Length is no number'
  if (transfer !== undefined && (isSized || !/^\s*chunked\s*$/i.test(String(transfer))))
    return 'Its Transfer-Encoding is not chunked alone'
  if (trailer !== undefined && (isSized || isBare)) return 'It has trailers, and no chunks before them'
  return null
}

function fitsLength(length: unknown, body: Uint8Array | null): boolean {
  if (length === undefined || length === null) return true
  return Number(length) === (body?.byteLength ?? 0)
}

/** Only gzip tells by its first bytes: deflate is common without its mark, and Brotli has none. */
function fitsCoding(coding: unknown, body: Uint8Array | null): boolean {
  if (coding === undefined || coding === null || body === null || body.byteLength === 0) return true
  return !/^\s*(x-)?gzip\s*$/i.test(String(coding)) || (body[0] === 0x1f && body[1] === 0x8b)
}
