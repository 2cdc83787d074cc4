import { invalid } from '../options.ts'
import type { Clock } from '../platform/clock.ts'
import { webSha256 } from '../platform/web.ts'
import { withinTime } from './attempt.ts'
import { CallError } from './call-error.ts'
import { BODY_BYTES_MAX } from './limits.ts'
import { toBase64 } from './stored-call.ts'

/** A request in a form that can be stored and sent any number of times. */
export interface PlainRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
  /** The settings of fetch that are stored. */
  readonly init: Readonly<Record<string, string | undefined>>
}

/** Settings of a Request that another Request with the same meaning needs. */
interface Stored {
  readonly credentials: string
  readonly mode: string
  readonly redirect: string
}

/** The request that fetch would send. A stream is refused, because it can be read only once. */
export async function plainRequest(
  input: string | URL | Request,
  given: RequestInit,
  clock: Clock,
  withinMs: number,
  signal: AbortSignal | null,
): Promise<PlainRequest> {
  const content = given.body as Partial<ReadableStream> | null | undefined
  if (content?.getReader ?? content?.[Symbol.asyncIterator]) throw unreplayable('is a stream')
  // A Request has the content type of its body: for a form, with the boundary. The caller's own stays readable.
  const request = new Request(input instanceof Request ? input.clone() : input, { ...given, signal: null })
  const { method, url, headers, credentials, mode, redirect } = request as unknown as Request & Stored
  // Its answer could not be read.
  if (mode === 'no-cors') throw invalid("mode must not be 'no-cors'")
  const bytes = await withinTime(clock, withinMs, signal, () => bytesOf(input, request)).catch((cause: unknown) => {
    signal?.throwIfAborted()
    throw unreplayable('cannot be read', cause)
  })
  if (bytes.byteLength > BODY_BYTES_MAX) throw unreplayable(`is over ${BODY_BYTES_MAX} bytes`)
  return { method, url, headers, body: new Uint8Array(bytes), init: { credentials, mode, redirect } }
}

/** The body of the caller's Request may be a stream without an end, so the client reads at most one part too many. */
function bytesOf(input: string | URL | Request, request: Request): Promise<ArrayBuffer> {
  let size = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, to) {
      to.enqueue(part)
      if ((size += part.length) > BODY_BYTES_MAX) to.terminate()
    },
  })
  // A browser that does not show the body of a Request makes no Request from a stream.
  return ((input as Request).body ? new Response(request.body?.pipeThrough(limit)) : request).arrayBuffer()
}

/** Equal requests have equal hashes. A form gets a new boundary each time, so the boundary is not part of it. */
export async function hashOf({ method, url, headers, body }: PlainRequest): Promise<string> {
  const type = headers.get('content-type') ?? ''
  const boundary = /^multipart\/.*boundary="?([^";]+)/i.exec(type)?.[1]
  // Latin-1 has a character for each byte.
  const kept = boundary ? new TextDecoder('latin1').decode(body).replaceAll(`--${boundary}`, '--') : body
  const whole = new Blob([`${method}\n${url}\n${type.replace(boundary ?? '', '')}\n`, kept])
  return toBase64(await webSha256(await whole.arrayBuffer()))
}

function unreplayable(detail: string, cause?: unknown): Error {
  return new CallError('ONCE_BODY_UNREPLAYABLE', 500, `the body ${detail}`, { cause })
}
