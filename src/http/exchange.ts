import { isAscii } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { onceError, type OnceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { LeasedOperation, Operation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import { isAboutReader } from './headers.ts'
import { isBare } from './held-head.ts'
import { hasOneValue, isHttp2 } from './http2-response.ts'
import type { Log } from './report.ts'

// oxlint-disable-next-line no-explicit-any -- each adapter types it for its users
export type AnyOperation = Operation<any, Events> | LeasedOperation<any, Events>

/** One request and its response, in the words of a framework on top of node:http. */
export interface Exchange<Req> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** What `scope()` and the other hooks are called with. */
  readonly request: Req
  /** The URL before any router cut a prefix off. */
  readonly target: string
  readonly pattern: string
  /** What a body parser left, and the raw bytes where somebody kept them. */
  readonly seen: { readonly body?: unknown; readonly rawBody?: unknown }
  /** The framework answers after the handler has returned: a return without an answer is no mistake. */
  readonly answersLater: boolean
  /** Calls the handler; `answered` tells when its answer is held. */
  handle(op: AnyOperation, answered: () => Promise<unknown>): unknown
  /** The handler is done and the framework may go on: it was called for this request. */
  handled(value: unknown): void
  /**
   * Sends now what the framework would send after the handler: a leased handler waits for its commit, and the commit
   * waits for the answer. Without it `commit` resolves before the commit where the answer comes after the handler.
   */
  answerNow?(): void
  /** An answer was given, and the framework has not written it yet: its hooks may take a while. */
  isAnswering?(): boolean
  /** Takes back what the framework itself has noted of an answer that does not count. */
  unsay?(error: unknown): void
  /** The handler took the response from the framework for good, which answers no error any more. */
  isTaken?(): boolean
  /** How the framework logs; absent: `console.error`. */
  readonly log?: Log | undefined
  /** The framework's own error handling, also when the framework has gone on after the handler. */
  fail(error: unknown): void
  /** Sends an answer that is not the handler's. */
  send(answer: Answer): void
}

/** Writes an answer of ours over whatever stood before it. */
export function writeAnswer(res: ServerResponse, { status, headers, body }: Answer): void {
  if (res.headersSent || res.destroyed) return
  res.statusCode = status
  for (let i = 0; i < headers.length; i++) {
    const [name, value] = headers[i] as readonly [string, string]
    // A name that came before is one more of it; anything else stands over what was there.
    if (i > 0 && headers.findIndex((pair) => pair[0] === name) < i) addHeader(res, name, value)
    else if (!isAboutReader(name) || !res.hasHeader(name)) res.setHeader(name, value)
  }
  if (body === null) res.end()
  else endWith(res, body)
}

/** An answer that was stored over HTTP/1.1 may have two lines where HTTP/2 takes one: a list says the same. */
function addHeader(res: ServerResponse, name: string, value: string): void {
  if (isHttp2(res) && hasOneValue(name)) res.setHeader(name, `${String(res.getHeader(name))}, ${value}`)
  else res.appendHeader(name, value)
}

/** Plain text leaves in one piece with its head, which costs half of two. */
export function endWith(res: ServerResponse, body: Uint8Array): void {
  // A server may be told to throw over such bytes (`rejectNonStandardBodyWrites`), and the commit is past.
  if (isBare(res)) {
    res.end()
    return
  }
  if (isGarbled(res)) {
    // Node also writes the header wrongly when it knows a length that was set before the header.
    res.removeHeader('content-length')
    if (!res.hasHeader('transfer-encoding')) res.setHeader('content-length', body.byteLength)
    res.writeHead(res.statusCode)
  }
  if (body.byteLength > JOINED_BYTES_MAX || !isAscii(body)) res.end(body)
  else res.end(asBuffer(body).toString('latin1'), 'latin1')
}

/** Node encodes a Latin-1 file name wrongly when it knows the length of the body before it writes the head. */
function isGarbled(res: ServerResponse): boolean {
  const value = res.getHeader('content-disposition')
  return value !== undefined && /[\x80-\xff]/.test(String(value)) && !('stream' in res)
}

/** Longer ones are not worth the copy. */
const JOINED_BYTES_MAX: number = 16 * 1024

/** The same bytes, with the methods of Node. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

export function noAnswer(who: string): OnceError {
  return onceError('ONCE_NO_ANSWER', {
    detail: `${who} returned without a response. Send a response, or return the promise that sends it`,
  })
}
