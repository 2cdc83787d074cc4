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
  /** The arguments of `scope()` and the other hooks. */
  readonly request: Req
  /** The URL before a router removed a prefix. */
  readonly target: string
  readonly pattern: string
  /** The result of a body parser, and the raw bytes if the application kept them. */
  readonly seen: { readonly body?: unknown; readonly rawBody?: unknown }
  /** The framework answers after the handler has returned, so a return without an answer is correct. */
  readonly answersLater: boolean
  /** Calls the handler. `answered` resolves when its answer is held. */
  handle(op: AnyOperation, answered: () => Promise<unknown>): unknown
  /** The handler was called and is done, so the framework may continue. */
  handled(value: unknown): void
  /**
   * Sends at once what the framework would send after the handler. A leased handler waits for its commit, and the commit
   * waits for the answer. Without this method, `commit` resolves before the commit if the answer comes after the handler.
   */
  answerNow?(): void
  /** An answer was given, but the framework has not written it yet, because its hooks still run. */
  isAnswering?(): boolean
  /** Resets the framework's own state of an answer that does not count. */
  unsay?(error: unknown): void
  /** The handler took the response from the framework, so the framework no longer answers errors. */
  isTaken?(): boolean
  /** The framework's logger. Absent: `console.error`. */
  readonly log?: Log | undefined
  /** Recorded streams. Absent: the adapter cannot record them. */
  readonly streams?: ExchangeStreams | undefined
  /** The framework's own error handling, also when the framework has gone on after the handler. */
  fail(error: unknown): void
  /** Sends an answer that is not the handler's. */
  send(answer: Answer): void
}

/** What an adapter does for recorded streams. */
export interface ExchangeStreams {
  /** The handler may also be called while the answer is being sent. */
  readonly startsLate: boolean
  /** Calls the handler with a response that is recorded. */
  handle(op: AnyOperation, res: ServerResponse): unknown
  /** The handler has returned. */
  returned(value: unknown): void
  /** The answer leaves through the real response. `isCalled`: the framework knows an answer of the handler. */
  begin(isCalled: boolean): void
}

/** Writes our answer, and replaces whatever was set before. */
export function writeAnswer(res: ServerResponse, { status, headers, body }: Answer): void {
  if (res.headersSent || res.destroyed) return
  setHead(res, status, headers)
  if (body === null) res.end()
  else endWith(res, body)
}

/** Sets status and headers. */
export function setHead(res: ServerResponse, status: number, headers: Answer['headers']): void {
  res.statusCode = status
  for (let i = 0; i < headers.length; i++) {
    const [name, value] = headers[i] as readonly [string, string]
    // A repeated name adds a value. A new name replaces the values that were set before.
    if (i > 0 && headers.findIndex((pair) => pair[0] === name) < i) addHeader(res, name, value)
    else if (!isAboutReader(name) || !res.hasHeader(name)) res.setHeader(name, value)
  }
}

/** An answer that was stored over HTTP/1.1 may repeat a header that HTTP/2 allows once. A list means the same. */
function addHeader(res: ServerResponse, name: string, value: string): void {
  if (isHttp2(res) && hasOneValue(name)) res.setHeader(name, `${String(res.getHeader(name))}, ${value}`)
  else res.appendHeader(name, value)
}

/** Sends plain text in one piece with its head, which costs half as much as two pieces. */
export function endWith(res: ServerResponse, body: Uint8Array): void {
  // With `rejectNonStandardBodyWrites` the server would throw here, after the commit.
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

/** Copying longer texts costs more than it saves. */
const JOINED_BYTES_MAX: number = 16 * 1024

/** The same bytes as a Buffer. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

export function noAnswer(who: string): OnceError {
  return onceError('ONCE_NO_ANSWER', {
    detail: `${who} returned without a response. Send a response, or return the promise that sends it`,
  })
}
