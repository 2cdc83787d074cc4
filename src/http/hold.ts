import type { ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import { ANSWER_HELD_BYTES_MAX } from '../limits.ts'
import { type Deferred, deferred } from './deferred.ts'
import { endWith } from './exchange.ts'
import { flatHeaders, type HeaderPairs } from './headers.ts'
import { type Callback, type Chunk, HeldResponse, type Holder } from './held-response.ts'

/** The whole answer of a handler, before anybody saw it. */
export interface Held {
  readonly status: number
  readonly headers: HeaderPairs
  readonly body: Buffer | null
}

/**
 * Holds a Node response back: every byte path ends here, and nothing leaves until `release`. The handler sees a response
 * that works, also when the client is gone: its `close` waits until the answer is decided, so a pipe is not cut off and
 * an answer is neither lost nor the key released because somebody's phone lost its network.
 */
export class Hold implements Holder {
  readonly #res: ServerResponse
  readonly #held: HeldResponse
  readonly #streams: 'buffer' | 'refuse' | undefined
  readonly #before: { readonly status: number; readonly headers: ReturnType<ServerResponse['getHeaders']> }
  readonly #finishers: readonly unknown[]
  #chunks: Buffer[] = []
  #size = 0
  #state: 'open' | 'ended' | 'failed' | 'over' = 'open'
  #begun = false
  #closed = false
  #answer: Held | undefined
  #failure: Error | undefined
  /** Made when somebody waits. */
  #waiting: Deferred<Held> | undefined

  constructor(res: ServerResponse, streams: 'buffer' | 'refuse' | undefined) {
    this.#res = res
    this.#streams = streams
    this.#before = { status: res.statusCode, headers: res.getHeaders() }
    this.#finishers = res.rawListeners('finish')
    if (res.destroyed) this.closed()
    this.#held = new HeldResponse(res, this)
  }

  /** The held answer, once `end` was called. Rejects when it cannot be held. */
  get answered(): Promise<Held> {
    if (this.#answer) return Promise.resolve(this.#answer)
    if (this.#failure && this.#state === 'failed') return Promise.reject(this.#failure)
    if (!this.#waiting) {
      this.#waiting = deferred()
      // It may fail when nobody listens any more.
      this.#waiting.promise.catch(() => {})
    }
    return this.#waiting.promise
  }

  /** The same without a wait; undefined while there is none. */
  get answer(): Held | undefined {
    return this.#answer
  }

  /** Something was written, piped or ended: an answer is on its way. */
  get begun(): boolean {
    return this.#begun
  }

  /** Why there is none. */
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
    this.#waiting?.reject(error)
  }

  /** Forgets what was written: somebody else answers, or the handler once more. */
  reset(): void {
    if (this.#state === 'over') return
    if (this.#state !== 'open') this.#waiting = undefined
    this.#state = 'open'
    this.#answer = undefined
    this.#chunks = []
    this.#size = 0
    this.#begun = false
    this.#res.finished = false
    this.#restoreHead()
  }

  /** Lets the held answer go. */
  release(): void {
    const body = this.#body()
    this.#over()
    if (this.#closed) this.#res.emit('close')
    else if (body) endWith(this.#res, body)
    else this.#res.end()
  }

  /** Gives the response back as it was before the handler touched it. */
  discard(): void {
    if (this.#state === 'over') return
    this.#restoreHead()
    this.#over()
    if (this.#closed) this.#res.emit('close')
  }

  get isEnded(): boolean {
    return this.#state === 'ended'
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    this.#begun = true
    if (this.#isWhole()) this.#take(chunk, encoding)
    if (callback) process.nextTick(callback)
    return true
  }

  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): void {
    if (typeof chunk === 'function') [chunk, encoding, callback] = [undefined, undefined, chunk]
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    this.#begun = true
    if (chunk !== undefined && chunk !== null) this.#take(chunk, encoding)
    if (this.#state === 'open') this.#end()
    if (callback) process.nextTick(callback)
  }

  writeHead(status: number, reason?: unknown, headers?: unknown): void {
    const res = this.#res
    res.statusCode = status
    if (typeof reason === 'string') res.statusMessage = reason
    const given = typeof reason === 'string' ? headers : (headers ?? reason)
    if (Array.isArray(given)) {
      const flat = Array.isArray(given[0]) ? given.flat() : given
      for (let i = 0; i < flat.length; i += 2) res.removeHeader(String(flat[i]))
      for (let i = 0; i < flat.length; i += 2) res.appendHeader(String(flat[i]), flat[i + 1])
    } else if (typeof given === 'object' && given !== null) {
      for (const [name, value] of Object.entries(given)) if (value !== undefined) res.setHeader(name, value)
    }
  }

  flushHeaders(): void {
    this.#isWhole()
  }

  piped(): void {
    this.#begun = true
  }

  /** What a client that left did to the response, undone until the answer is decided. */
  closed(): void {
    this.#closed = true
    this.#res.destroyed = false
    Object.assign(this.#res, { _closed: false })
  }

  /** Pieces without a length are a stream; a stream of events has no end to wait for. */
  #isWhole(): boolean {
    const res = this.#res
    const events = String(res.getHeader('content-type') ?? '').startsWith('text/event-stream')
    if (this.#streams === 'buffer' || (this.#streams === undefined && !events)) return true
    if (!events && res.getHeader('content-length') !== undefined) return true
    this.fail(onceError('ONCE_STREAM'))
    return false
  }

  #take(chunk: Chunk, encoding?: BufferEncoding): void {
    if (this.#state !== 'open') return
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding ?? 'utf8') : Buffer.from(chunk)
    this.#size += bytes.byteLength
    if (this.#size > ANSWER_HELD_BYTES_MAX) {
      const detail = `The answer has more than ${ANSWER_HELD_BYTES_MAX} bytes and cannot be held until the commit`
      return this.fail(onceError('ONCE_ANSWER_TOO_LARGE', { detail }))
    }
    this.#chunks.push(bytes)
  }

  #end(): void {
    const res = this.#res
    const events = String(res.getHeader('content-type') ?? '').startsWith('text/event-stream')
    if (events && !this.#isWhole()) return
    this.#state = 'ended'
    res.finished = true
    this.#answer = { status: res.statusCode, headers: flatHeaders(res.getHeaders()), body: this.#body() }
    this.#waiting?.resolve(this.#answer)
    process.nextTick(() => this.#tellFinished())
  }

  /** Whoever waits for `finish` inside the handler (a pipeline does) would wait for the commit, which waits for them. */
  #tellFinished(): void {
    for (const listener of this.#res.rawListeners('finish')) {
      if (this.#finishers.includes(listener)) continue
      this.#res.removeListener('finish', listener as () => void)
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
    // Node takes its own words when there are none.
    res.statusMessage = undefined as unknown as string
  }

  #over(): void {
    this.#state = 'over'
    this.#chunks = []
    this.#res.finished = false
    this.#held.letGo()
    if (this.#closed) this.#res.destroyed = true
  }
}
