import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isHttp2 } from './http2-response.ts'

/** The status and headers of a held answer, as they were when it was given. */
export interface HeldHead {
  readonly status: number
  readonly reason: string | undefined
  readonly headers: OutgoingHttpHeaders
  readonly isUtf8: boolean
  /** Headers that are restored before the answer leaves, because the response may have others by then. */
  readonly restored: readonly string[]
}

export function headOf(res: ServerResponse): HeldHead {
  const headers = res.getHeaders()
  let restored = NONE
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (!Array.isArray(value)) continue
    // Copy the list, because code that adds a cookie may change the list in place before it is refused.
    headers[name] = [...value]
    restored = [...restored, name]
  }
  // HTTP/2 has no status text, and warns when it is read.
  const reason = isHttp2(res) ? undefined : res.statusMessage
  return { status: statusOf(res), reason, headers, isUtf8: false, restored }
}

/** The status as Node writes it. A text is converted to a number. */
export function statusOf({ statusCode }: ServerResponse): number {
  return Math.trunc(statusCode) || 0
}

/**
 * Whether Node would write the head and this text together, and so the head in UTF-8. Node does so unless the text is a
 * chunk, because the size of a chunk comes first. `isOnly`: the text is the whole body, and Node knows its length.
 */
export function isTextWithHead(res: ServerResponse, chunk: unknown, encoding: unknown, isOnly: boolean): boolean {
  if (typeof chunk !== 'string' || isHttp2(res) || isBare(res)) return false
  if (encoding && !/^utf-?8$/i.test(String(encoding))) return false
  // An empty piece is not a chunk, and leaves with the head.
  if (chunk === '') return true
  if (!isOnly) return res.hasHeader('content-length')
  if (res.hasHeader('transfer-encoding')) return false
  // After the length was removed, as Koa does for each new body, Node sends chunks.
  return res.hasHeader('content-length') || Reflect.get(res, '_removedContLen') !== true
}

/** Whether the answer must not have a body. */
export function isBare({ req, statusCode }: ServerResponse): boolean {
  return req.method === 'HEAD' || statusCode === 204 || statusCode === 304
}

/** The head with each sent byte as one character, so that a replay sends the same bytes. */
export function inUtf8(head: HeldHead): HeldHead {
  if (head.isUtf8) return head
  const names = Object.keys(head.headers).filter((name) => isRecoded(name, head.headers[name]))
  const reason = head.reason === undefined ? undefined : bytesOf(head.reason)
  if (names.length === 0) return { ...head, reason, isUtf8: true }
  const recoded = names.map((name) => {
    const value = head.headers[name]
    return [name, Array.isArray(value) ? value.map(bytesOf) : bytesOf(String(value))] as const
  })
  const headers = { ...head.headers, ...Object.fromEntries(recoded) }
  return { ...head, reason, headers, isUtf8: true, restored: [...new Set([...head.restored, ...names])] }
}

const NONE: readonly string[] = []
const BEYOND_ASCII = /[\x80-\xff]/

/** File names stay unchanged, because Node alone would send them without a defined encoding. */
function isRecoded(name: string, value: OutgoingHttpHeaders[string]): boolean {
  if (typeof value === 'number' || value === undefined || name === 'content-disposition') return false
  return Array.isArray(value) ? value.some((each) => BEYOND_ASCII.test(each)) : BEYOND_ASCII.test(value)
}

function bytesOf(text: string): string {
  return BEYOND_ASCII.test(text) ? Buffer.from(text, 'utf8').toString('latin1') : text
}
