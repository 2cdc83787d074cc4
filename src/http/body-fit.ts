/** What a head says about its body. */
export interface AboutBody {
  readonly length: unknown
  readonly coding: unknown
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
  if (status === 204 || status === 304 || method === 'HEAD') return null
  if (!fitsLength(said.length, body)) return 'Its Content-Length is not that of its bytes'
  if (!fitsCoding(said.coding, body)) return 'Its Content-Encoding is not that of its bytes'
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
