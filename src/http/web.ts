import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { ANSWER_HELD_BYTES_MAX } from '../limits.ts'
import { collect } from './content-coding.ts'
import { pickHeaders } from './headers.ts'
import { fateOfAnswer } from './protection.ts'
import type { Produced } from '../once/outcome.ts'
import type { Route } from './route.ts'

/** A web-standard answer that was read to its end: what the record keeps of it, and the same answer to send. */
export interface Captured {
  readonly produced: Produced
  readonly response: Response
}

/** Reads a Response whole. Set-Cookie and everything else the handler said goes to the first caller only. */
export async function capture<Req>(route: Route<Req>, response: unknown, threw: boolean): Promise<Captured> {
  if (!isResponse(response)) throw onceError('ONCE_NO_ANSWER', { detail: 'The handler returned no Response' })
  const { status, headers } = response
  const fate = fateOfAnswer(response, { keep4xx: route.keep4xx, threw })
  const body = await bodyOf(route, response)
  const answer = { status, headers: pickHeaders(headers, route.kept), body, kept: true }
  return { produced: { answer, fate }, response: new Response(body, responseInit(response)) }
}

export function responseOf({ status, headers, body }: Answer): Response {
  const bare = status === 204 || status === 304
  return new Response(bare ? null : body, { status, headers: headers as [string, string][] })
}

function responseInit({ status, statusText, headers }: Response): ResponseInit {
  return { status, statusText, headers }
}

async function bodyOf<Req>({ streams }: Route<Req>, response: Response): Promise<Uint8Array | null> {
  const { body, headers } = response
  const events = (headers.get('content-type') ?? '').startsWith('text/event-stream')
  if (events && streams !== 'buffer') {
    void body?.cancel().catch(() => {})
    throw onceError('ONCE_STREAM')
  }
  if (!body) return null
  const whole = streams !== 'refuse' || headers.has('content-length')
  return collect(body, ANSWER_HELD_BYTES_MAX, tooLarge, (chunks) => {
    if (chunks > 1 && !whole) throw onceError('ONCE_STREAM')
  })
}

function tooLarge(): Error {
  const detail = `The answer has more than ${ANSWER_HELD_BYTES_MAX} bytes and cannot be held until the commit`
  return onceError('ONCE_ANSWER_TOO_LARGE', { detail })
}

/** By shape: several runtimes bring a Response of their own. */
function isResponse(value: unknown): value is Response {
  const candidate = value as Partial<Response> | null | undefined
  return typeof candidate?.status === 'number' && typeof candidate.headers?.get === 'function'
}
