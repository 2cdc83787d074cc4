import { EventEmitter } from 'node:events'
import { type IncomingMessage, ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import { STREAM_QUEUE_BYTES } from '../stream/limits.ts'
import { deferred } from './deferred.ts'
import { checkStatus, flatHeaders, type HeaderPairs } from './headers.ts'
import { headOf } from './held-head.ts'
import { bytesOf, type Callback, type Chunk, HeldResponse, type Holder } from './held-response.ts'
import { isHttp2 } from './http2-response.ts'

/**
 * The response that the handler of a recorded stream writes to. It has no connection: its bytes are recorded, and every
 * client reads the record. So the handler may run while the real response already sends what earlier attempts wrote.
 */
export class StreamResponse implements Holder {
  readonly res: ServerResponse
  readonly #held: HeldResponse
  readonly #head = deferred<{ readonly status: number; readonly headers: HeaderPairs }>()
  #isHeadSent = false
  #state: 'open' | 'ended' | 'failed' = 'open'
  #failure: unknown
  #chunks: { readonly bytes: Buffer; readonly taken: Callback | undefined }[] = []
  #size = 0
  #needsDrain = false
  #arrived: (() => void) | undefined

  constructor(req: IncomingMessage, real: ServerResponse) {
    const res = new ServerResponse(req)
    // The methods of a framework, such as `res.json`, come from its prototype.
    if (!isHttp2(real)) Object.setPrototypeOf(res, Object.getPrototypeOf(real) as object)
    const { locals } = real as { locals?: unknown }
    if (locals !== undefined) Object.assign(res, { locals })
    res.statusCode = real.statusCode
    for (const [name, value] of Object.entries(real.getHeaders())) if (value !== undefined) res.setHeader(name, value)
    this.res = res
    this.#held = new HeldResponse(res, this)
    this.#head.promise.catch(() => {})
  }

  /** Resolves when status and headers are fixed. Rejects when the handler failed before. */
  get head(): Promise<{ readonly status: number; readonly headers: HeaderPairs }> {
    return this.#head.promise
  }

  /** Everything that the handler writes. Throws when the handler fails. */
  async *body(): AsyncGenerator<Uint8Array, void, undefined> {
    let taken: Callback | undefined
    try {
      for (;;) {
        const next = this.#chunks.shift()
        if (next) {
          this.#size -= next.bytes.byteLength
          taken = next.taken
          yield next.bytes
          taken?.()
          taken = undefined
          this.#drained()
        } else if (this.#state === 'failed') throw this.#failure
        else if (this.#state === 'ended') return this.#finish()
        else await new Promise<void>((resolve) => (this.#arrived = resolve))
      }
    } finally {
      // Nobody reads any more, so a pipe into this response must stop.
      if (this.#state === 'open') this.fail(onceError('ONCE_LEASE_LOST'))
      const left = this.#chunks.splice(0).map((chunk) => chunk.taken)
      for (const callback of [taken, ...left]) this.#refuse(callback)
    }
  }

  /** Tells a handler that waits for its write to be taken that it will not be. */
  #refuse(callback: Callback | undefined): void {
    if (callback) process.nextTick(callback, this.#state === 'failed' ? this.#failure : undefined)
  }

  /** The handler failed. */
  fail(error: unknown): void {
    if (this.#state !== 'open') return
    this.#state = 'failed'
    this.#failure = error
    this.#head.reject(error)
    this.#arrived?.()
    this.#tell('close')
  }

  get isHeadSent(): boolean {
    return this.#isHeadSent
  }

  get isEnded(): boolean {
    return this.#state !== 'open'
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    if (this.#state !== 'open') {
      this.#refuse(callback)
      return true
    }
    const bytes = bytesOf(chunk, encoding)
    this.flushHeaders()
    this.#chunks.push({ bytes, taken: callback })
    this.#size += bytes.byteLength
    this.#arrived?.()
    this.#needsDrain ||= this.#size > STREAM_QUEUE_BYTES
    return !this.#needsDrain
  }

  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): void {
    if (typeof chunk === 'function') [chunk, encoding, callback] = [undefined, undefined, chunk]
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    if (this.#state !== 'open') return this.#refuse(callback)
    if (callback) this.res.once('finish', callback)
    if (chunk) this.write(chunk, encoding)
    this.flushHeaders()
    this.#state = 'ended'
    this.#arrived?.()
  }

  writeHead(status: number, reason?: unknown, headers?: unknown): void {
    if (this.#isHeadSent) return
    checkStatus(status)
    const { res } = this
    res.statusCode = status
    const given = typeof reason === 'string' ? headers : (headers ?? reason)
    if (Array.isArray(given)) {
      const flat = Array.isArray(given[0]) ? given.flat() : given
      for (let i = 0; i < flat.length; i += 2) res.setHeader(String(flat[i]), flat[i + 1])
    } else if (typeof given === 'object' && given !== null) {
      for (const [name, value] of Object.entries(given)) res.setHeader(name, value)
    }
    this.flushHeaders()
  }

  flushHeaders(): void {
    if (this.#isHeadSent) return
    const { status, headers } = headOf(this.res)
    this.#isHeadSent = true
    this.#held.fixHead()
    this.#head.resolve({ status, headers: flatHeaders(headers) })
  }

  changedLate(): void {}

  informed(): void {}

  piped(): void {}

  closed(): void {}

  destroy(): void {
    this.fail(onceError('ONCE_NO_ANSWER', { detail: 'The handler destroyed its response' }))
  }

  #drained(): void {
    if (!this.#needsDrain || this.#size > 0) return
    this.#needsDrain = false
    this.#tell('drain')
  }

  #finish(): void {
    this.res.finished = true
    this.#tell('finish')
    this.#tell('close')
  }

  /** Calls the listeners. The response's own `emit` hides these events while it is held. */
  #tell(event: 'drain' | 'finish' | 'close'): void {
    process.nextTick(() => Reflect.apply(EventEmitter.prototype.emit, this.res, [event]))
  }
}
