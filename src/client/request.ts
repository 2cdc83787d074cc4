import { invalid } from '../options.ts'
import { webSha256 } from '../platform/web.ts'
import { CallError } from './call-error.ts'
import { BODY_BYTES_MAX } from './limits.ts'
import { toBase64 } from './stored-call.ts'

/** A request in a form that can be stored and sent any number of times. */
export interface PlainRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer> | null
  /** The settings of fetch that are stored. */
  readonly init: Readonly<Record<string, string | undefined>>
  /** All settings, such as a dispatcher. */
  readonly extra: Readonly<Record<string, unknown>>
}

/** Settings of a Request that another Request with the same meaning needs. */
interface Stored {
  readonly credentials: string
  readonly mode: string
  readonly redirect: string
}

/** The request that fetch would send. A stream is refused, because it can be read only once. */
export async function plainRequest(input: string | URL | Request, given: RequestInit = {}): Promise<PlainRequest> {
  const { method: _method, headers: _headers, body: content, signal: _signal, ...extra } = given
  const { getReader, [Symbol.asyncIterator]: iterate } = (content ?? {}) as Partial<ReadableStream>
  if (getReader ?? iterate) throw unreplayable('is a stream')
  // A Request has the content type of its body: for a form, with the boundary. The caller's own stays readable.
  const request = new Request(input instanceof Request ? input.clone() : input, { ...given, signal: null })
  const { method, url, headers, credentials, mode, redirect } = request as unknown as Request & Stored
  // Its answer could not be read.
  if (mode === 'no-cors') throw invalid("mode must not be 'no-cors'")
  const bytes = new Uint8Array(await request.arrayBuffer())
  if (bytes.length > BODY_BYTES_MAX) throw unreplayable(`is over ${BODY_BYTES_MAX} bytes`)
  const body = bytes.length > 0 ? bytes : null
  return { method, url, headers, body, init: { credentials, mode, redirect }, extra }
}

/** Equal requests have equal hashes. A form gets a new boundary each time, so the boundary is not part of it. */
export async function hashOf({ method, url, headers, body }: PlainRequest): Promise<string> {
  const type = headers.get('content-type') ?? ''
  const boundary = /^multipart\/.*;\s*boundary="?([^";]+)/i.exec(type)?.[1]
  // Latin-1 has a character for each byte.
  const kept =
    body && boundary ? new TextDecoder('latin1').decode(body).replaceAll(`--${boundary}`, '--') : (body ?? '')
  const whole = new Blob([`${method}\n${url}\n${type.replace(boundary ?? '', '')}\n`, kept])
  return toBase64(await webSha256(await whole.arrayBuffer()))
}

function unreplayable(detail: string): Error {
  return new CallError('ONCE_BODY_UNREPLAYABLE', 500, `the body ${detail}`)
}
