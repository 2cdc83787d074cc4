import type { ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import { ANSWER_HELD_BYTES_MAX } from '../limits.ts'
import { misfitOf } from './body-fit.ts'
import { type Deferred, deferred } from './deferred.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { endWith, noAnswer, writeAnswer } from './exchange.ts'
import { checkStatus, flatHeaders, type HeaderPairs, isValue, withOwnLists } from './headers.ts'
import { type HeldHead, headOf, inUtf8, isTextWithHead, statusOf } from './held-head.ts'
import { bytesOf, type Callback, type Chunk, HeldResponse, type Holder, ignoreLater } from './held-response.ts'
import { isHttp2, unfitForHttp2 } from './http2-response.ts'

/** The whole answer of a handler before it is sent: status, headers and bytes as they were when it was given. */
export interface HeldAnswer {
  readonly status: number
  readonly reason: string | undefined
  readonly headers: HeaderPairs
  readonly body: Buffer | null
}

/**
 * Holds a Node response back. Every way to send bytes ends here, and nothing leaves until `release`. The handler sees a
 * working response even if the client is gone: `close` is delayed until the answer is decided. So a pipe is not cut off,
 * and a client that lost its network neither loses the answer nor releases the key.
 */
export class Hold implements Holder {
  readonly #res: ServerResponse
  readonly #held: HeldResponse
  readonly #streams: 'buffer' | 'refuse' | undefined
  readonly #before: { readonly status: number; readonly headers: ReturnType<ServerResponse['getHeaders']> }
  readonly #finishers: readonly unknown[]
  readonly #closers: readonly unknown[]
  /** The answer is complete. */
  onEnded: (() => void) | undefined
  readonly #isHttp2: boolean
  #chunks: Buffer[] = []
  #size = 0
  #state: 'open' | 'ended' | 'failed' | 'over' = 'open'
  #begun = false
  /** Without the hold, the head would have left. A pipe alone sends nothing. */
  #isWritten = false
  #head: HeldHead | undefined
  #changedLate = false
  #closed = false
  #answer: HeldAnswer | undefined
  #failure: Error | undefined
  /** Created by the first wait. */
  #waiting: Deferred<HeldAnswer> | undefined

  constructor(res: ServerResponse, streams: 'buffer' | 'refuse' | undefined) {
    this.#res = res
    this.#streams = streams
    this.#isHttp2 = isHttp2(res)
    this.#before = { status: res.statusCode, headers: withOwnLists(res.getHeaders()) }
    this.#finishers = res.rawListeners('finish')
    this.#closers = res.rawListeners('close')
    this.#held = new HeldResponse(res, this)
    if (res.destroyed) this.closed()
  }

  /** The held answer, once `end` was called. Rejects when it cannot be held. */
  get answered(): Promise<HeldAnswer> {
    if (this.#answer) return Promise.resolve(this.#answer)
    if (this.#failure && this.#state === 'failed') return Promise.reject(this.#failure)
    if (!this.#waiting) {
      this.#waiting = deferred()
      // It may reject after the last listener is gone.
      this.#waiting.promise.catch(() => {})
    }
    return this.#waiting.promise
  }

  /** The held answer at this moment. Undefined: there is none yet. */
  get answer(): HeldAnswer | undefined {
    return this.#answer
  }

  get isHeadSent(): boolean {
    return this.#head !== undefined || this.#state === 'failed'
  }

  /** Whether something was written, piped or ended, so that an answer is on its way. */
  get begun(): boolean {
    return this.#begun
  }

  /** Why there is no answer. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Ends the wait for an answer. */
  fail(error: Error): void {
    if (this.#state === 'failed' || this.#state === 'over') return
    this.#state = 'failed'
    this.#chunks = []
    this.#failure = error
    this.#answer = undefined
    // Later changes of the head do not concern the answer that is sent.
    this.#held.fixHead()
    this.#waiting?.reject(error)
  }

  /** Forgets what was written, because the handler or other code answers again. */
  reset(): void {
    if (this.#state === 'over') return
    if (this.#state !== 'open') this.#waiting = undefined
    this.#state = 'open'
    this.#answer = undefined
    this.#chunks = []
    this.#size = 0
    this.#begun = this.#isWritten = false
    this.#head = undefined
    this.#changedLate = false
    this.#failure = undefined
    this.#res.destroyed = false
    this.#restoreHead()
  }

  /** Sends the held answer. `always`: a header that is sent even if other code removed it. */
  release(always: string): void {
    const res = this.#res
    const answer = this.#answer
    const head = this.#head
    this.#over()
    if (this.#closed || !answer || !head) return this.#tellLeft()
    // Headers are unchanged, except for lists. These two are plain properties, which other code may have set since.
    res.statusCode = answer.status
    if (!this.#isHttp2) res.statusMessage = answer.reason as string
    for (const name of head.restored) res.setHeader(name, head.headers[name] as string[])
    const value = this.#before.headers[always]
    if (value !== undefined) res.setHeader(always, value)
    if (answer.body) endWith(res, answer.body)
    else res.end()
    ignoreLater(res)
  }

  /** Sends another answer, with the current headers. */
  replace(answer: Answer): void {
    const res = this.#res
    this.#over()
    if (this.#closed) return this.#tellLeft()
    for (const name of ABOUT_BODY) if (res.hasHeader(name)) res.removeHeader(name)
    if (res.hasHeader('content-length')) res.setHeader('content-length', answer.body?.byteLength ?? 0)
    writeAnswer(res, answer)
    ignoreLater(res)
  }

  /** Gives the response back as it was before the handler touched it. */
  discard(): void {
    if (this.#state === 'over') return
    this.#over()
    this.#restoreHead()
    if (this.#closed) this.#tellLeft()
  }

  get isEnded(): boolean {
    return this.#state === 'ended'
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    const bytes = this.#state === 'open' ? bytesOf(chunk, encoding) : undefined
    const isText = !this.#isWritten && isTextWithHead(this.#res, chunk, encoding, false)
    this.#begun = this.#isWritten = true
    if (bytes && this.#isWhole()) {
      this.#fixHead(isText)
      this.#take(bytes)
    }
    if (callback) process.nextTick(callback)
    return true
  }

  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): void {
    if (typeof chunk === 'function') [chunk, encoding, callback] = [undefined, undefined, chunk]
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    const wasOpen = this.#state === 'open'
    const bytes = wasOpen && chunk ? bytesOf(chunk, encoding) : undefined
    const isText = !this.#isWritten && isTextWithHead(this.#res, chunk || undefined, encoding, !this.#head)
    this.#begun = true
    if (bytes) this.#take(bytes)
    if (this.#state === 'open') this.#end(isText)
    if (!callback) return
    if (wasOpen && this.isEnded) this.#res.once('finish', callback)
    else process.nextTick(callback)
  }

  writeHead(status: number, reason?: unknown, headers?: unknown): void {
    if (this.isHeadSent) return this.changedLate()
    // HTTP/2 refuses it by itself.
    if (!this.#isHttp2) checkStatus(status)
    const res = this.#res
    res.statusCode = status
    if (typeof reason === 'string' && !this.#isHttp2) res.statusMessage = reason
    const given = typeof reason === 'string' ? headers : (headers ?? reason)
    if (Array.isArray(given)) {
      const flat = Array.isArray(given[0]) ? given.flat() : given
      for (let i = 0; i < flat.length; i += 2) res.removeHeader(String(flat[i]))
      for (let i = 0; i < flat.length; i += 2) res.appendHeader(String(flat[i]), flat[i + 1])
    } else if (typeof given === 'object' && given !== null) {
      for (const [name, value] of Object.entries(given)) res.setHeader(name, value)
    }
    this.#fixHead(false)
  }

  flushHeaders(): void {
    if (this.#state === 'open' && this.#isWhole()) this.#fixHead(!this.#isWritten && !this.#isHttp2)
  }

  changedLate(): void {
    this.#changedLate = true
  }

  informed(): void {
    // An answer that was complete before is not affected.
    if (this.#state === 'open') this.fail(invalidAnswer('Informational answers cannot be held until the commit'))
  }

  destroy(): void {
    if (this.#state === 'over') return
    // A complete answer is not sent here. It waits for the commit.
    if (this.#state !== 'ended') this.fail(noAnswer('The handler destroyed its response and'))
    this.#res.destroyed = true
    process.nextTick(() => this.tell('close'))
  }

  piped(): void {
    this.#begun = true
  }

  /** Hides the effects of a client's disconnect until the answer is decided. */
  closed(): void {
    this.#closed = true
    this.#res.destroyed = this.#state === 'failed'
    Object.assign(this.#res, { _closed: false })
  }

  /** Pieces without a length are a stream. A stream of events has no end to wait for. */
  #isWhole(): boolean {
    const res = this.#res
    const events = String(res.getHeader('content-type') ?? '').startsWith('text/event-stream')
    if (this.#streams === 'buffer' || (this.#streams === undefined && !events)) return true
    if (!events && res.getHeader('content-length') !== undefined) return true
    this.fail(onceError('ONCE_STREAM'))
    return false
  }

  #take(bytes: Buffer): void {
    this.#size += bytes.byteLength
    if (this.#size > ANSWER_HELD_BYTES_MAX) {
      const detail = `The answer has more than ${ANSWER_HELD_BYTES_MAX} bytes and cannot be held until the commit`
      return this.fail(onceError('ONCE_ANSWER_TOO_LARGE', { detail }))
    }
    this.#chunks.push(bytes)
  }

  #end(isText: boolean): void {
    const res = this.#res
    const events = String(res.getHeader('content-type') ?? '').startsWith('text/event-stream')
    if (events && !this.#isWhole()) return
    const { status, reason, headers } = this.#fixHead(isText)
    // The first bytes belong to one answer, and the last bytes to another.
    if (this.#changedLate || statusOf(res) !== status)
      return this.fail(invalidAnswer('A second answer began before the first one was complete'))
    const unfit = this.#isHttp2 ? unfitForHttp2(headers) : undefined
    if (unfit !== undefined) return this.fail(invalidAnswer(`The header ${unfit} cannot be sent over HTTP/2`))
    const body = this.#body()
    const said = {
      length: headers['content-length'],
      coding: headers['content-encoding'],
      transfer: headers['transfer-encoding'],
      trailer: this.#isHttp2 ? undefined : headers['trailer'],
    }
    const misfit = misfitOf(status, res.req.method, said, body)
    if (misfit) return this.fail(invalidAnswer(misfit))
    if (reason !== undefined && !isValue(reason))
      return this.fail(invalidAnswer('The status text of the answer has a character that a status line cannot have'))
    // Do not set `finished`. A closing server would treat the connection as idle, and end it.
    this.#state = 'ended'
    this.#answer = { status, reason, headers: flatHeaders(headers), body }
    this.#waiting?.resolve(this.#answer)
    this.onEnded?.()
  }

  /** Fixes the status and the headers. They cannot be changed any more. */
  #fixHead(isText: boolean): HeldHead {
    if (this.#head) return isText ? (this.#head = inUtf8(this.#head)) : this.#head
    this.#head = headOf(this.#res)
    if (isText) this.#head = inUtf8(this.#head)
    this.#held.fixHead()
    return this.#head
  }

  /**
   * Calls `finish` listeners of the handler, such as a pipeline. They would wait for the commit, which waits for the
   * handler. Listeners from before the hold are called by the response itself when it is over.
   */
  tell(event: 'finish' | 'close'): void {
    const before = event === 'finish' ? this.#finishers : this.#closers
    for (const listener of this.#res.rawListeners(event)) {
      if (before.includes(listener)) continue
      this.#res.removeListener(event, listener as () => void)
      Reflect.apply(listener, this.#res, [])
    }
  }

  #body(): Buffer | null {
    const [only] = this.#chunks
    if (!only) return null
    return this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks)
  }

  #restoreHead(): void {
    const res = this.#res
    for (const name of res.getHeaderNames()) res.removeHeader(name)
    for (const [name, value] of Object.entries(this.#before.headers))
      if (value !== undefined) res.setHeader(name, value)
    res.statusCode = this.#before.status
    if (this.#isHttp2) return
    // Without a status text, Node uses its own.
    res.statusMessage = undefined as unknown as string
    // Node does not send a removed length, and would have to close the connection.
    Object.assign(res, { _removedContLen: false, _removedTE: false, _removedConnection: false })
  }

  #over(): void {
    this.#state = 'over'
    this.#chunks = []
    this.#res.destroyed = this.#closed
    this.#held.letGo()
    const { socket } = this.#res
    // A listener that asked for the socket while the response was held still waits for it.
    if (socket && this.#res.listenerCount('socket') > 0) this.#res.emit('socket', socket)
  }

  /** The socket is already closed, and on-finished listens only to these events. */
  #tellLeft(): void {
    this.#res.emit('close')
    this.#res.emit('end')
  }
}

/** Headers that describe bytes that are not sent. */
const ABOUT_BODY = ['content-encoding', 'content-type', 'etag', 'transfer-encoding', 'trailer']

function invalidAnswer(detail: string): Error {
  return onceError('ONCE_ANSWER_INVALID', { detail })
}
