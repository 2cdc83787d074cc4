import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { ANSWER_HELD_BYTES_MAX } from '../limits.ts'
import { isBodyless, misfitOf } from './body-fit.ts'
import { collect } from './content-coding.ts'
import { storedHeaders } from './headers.ts'
import { fateOfAnswer, type HandlerEnd } from './protected-route.ts'
import type { Produced } from '../operation/outcome.ts'
import type { Route } from './route.ts'

/** A web-standard answer that was read completely: its stored form, and the same answer to send. */
export interface Captured {
  readonly produced: Produced
  readonly response: Response
}

/**
 * Reads a Response completely. Set-Cookie, and every other header that is not replayed, goes to the first caller only.
 */
export async function capture<Req>(
  route: Route<Req>,
  request: Request,
  response: unknown,
  handlerEnd: HandlerEnd,
  isOver: () => boolean,
): Promise<Captured> {
  if (!isResponse(response)) throw onceError('ONCE_NO_ANSWER', { detail: 'The handler returned no Response' })
  const { status } = response
  const fate = fateOfAnswer(response, route, handlerEnd)
  const body = await bodyOf(route, response, isOver)
  // Read the headers after the body, because some hosts set the content type only when the body is read.
  const { headers } = response
  const said = { length: headers.get('content-length'), coding: headers.get('content-encoding') }
  const misfit = misfitOf(status, request.method, said, body)
  if (misfit) throw onceError('ONCE_ANSWER_INVALID', { detail: misfit })
  const sent = (name: string): string | undefined => request.headers.get(name) ?? undefined
  const answer = { status, headers: storedHeaders(headers, route.kept, sent), body, kept: true }
  const whole = new Response(body, responseInit(response))
  // The answer now has a length. With `Transfer-Encoding` beside it, no client could read the answer.
  whole.headers.delete('transfer-encoding')
  return { produced: { answer, fate }, response: whole }
}

export function responseOf({ status, headers, body }: Answer): Response {
  return new Response(isBodyless(status) ? null : body, { status, headers: headers as [string, string][] })
}

function responseInit({ status, statusText, headers }: Response): ResponseInit {
  return { status, statusText, headers }
}

async function bodyOf<Req>(
  { streams }: Route<Req>,
  response: Response,
  isOver: () => boolean,
): Promise<Uint8Array | null> {
  const { body, headers } = response
  const events = (headers.get('content-type') ?? '').startsWith('text/event-stream')
  if (events && streams !== 'buffer') {
    void body?.cancel().catch(() => {})
    throw onceError('ONCE_STREAM')
  }
  if (!body) return null
  if (response.bodyUsed) throw onceError('ONCE_ANSWER_INVALID', { detail: 'The body of the response was already read' })
  const whole = streams !== 'refuse' || headers.has('content-length')
  return collect(body, ANSWER_HELD_BYTES_MAX, tooLarge, (chunks) => {
    if (chunks > 1 && !whole) throw onceError('ONCE_STREAM')
    // The caller no longer waits, and the stream may have no end.
    if (isOver()) throw onceError('ONCE_DEADLINE')
  })
}

function tooLarge(): Error {
  const detail = `The answer has more than ${ANSWER_HELD_BYTES_MAX} bytes and cannot be held until the commit`
  return onceError('ONCE_ANSWER_TOO_LARGE', { detail })
}

/** Checks the shape, because some runtimes have their own Response. */
export function isResponse(value: unknown): value is Response {
  const candidate = value as Partial<Response> | null | undefined
  return typeof candidate?.status === 'number' && typeof candidate.headers?.get === 'function'
}
