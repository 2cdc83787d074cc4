import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Answer } from '../lifecycle/answer.ts'
import { type Deferred, deferred } from './deferred.ts'
import { type AnyOperation, asBuffer, type Exchange, JOINED_BYTES_MAX, writeAnswer } from './exchange.ts'
import { flatHeaders } from './headers.ts'

/**
 * Fastify sends what a handler returns, so it goes on when the handler is done (`rest`) and its bytes end in the held
 * response, after serialization and onSend hooks. Nest uses the same on top of Fastify.
 */
export class FastifyExchange<Req> implements Exchange<Req> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly request: Req
  readonly target: string
  readonly pattern: string
  readonly seen: { readonly body?: unknown; readonly rawBody?: unknown }
  readonly answersLater = true
  readonly #reply: FastifyReply
  readonly #handle: (op: AnyOperation) => unknown
  /** What stood there before the handler was called. */
  #before: ReturnType<FastifyReply['getHeaders']> | undefined
  #rest: Deferred<unknown> | undefined
  #sent = false

  constructor(
    request: FastifyRequest & Req,
    reply: FastifyReply,
    pattern: string,
    handle: (op: AnyOperation) => unknown,
  ) {
    this.req = request.raw
    this.res = reply.raw
    this.request = request
    this.target = request.originalUrl
    this.pattern = pattern
    // Both names are those of Fastify's request.
    this.seen = request
    this.#reply = reply
    this.#handle = handle
  }

  /** What Fastify waits for: the handler's value, its error, or the reply; nothing when that has left already. */
  get rest(): Promise<unknown> | undefined {
    return this.#sent && !this.#rest ? undefined : this.#wait().promise
  }

  handle(op: AnyOperation, answered: () => Promise<unknown>): unknown {
    const reply = this.#reply
    this.#before ??= reply.getHeaders()
    // `return reply` waits for the reply to leave, and it leaves after the handler returned.
    const wait = (fulfilled: (value: undefined) => void): void => {
      const done = (): void => fulfilled(undefined)
      answered().then(done, done)
    }
    // It has one, which waits for what waits for it. By assignment, and not deleted again: both would cost every reply.
    Reflect.set(reply, 'then', wait)
    return this.#handle(op)
  }

  handled(value: unknown): void {
    this.#unwait()
    // Fastify gives up on a client that left; the answer is wanted all the same.
    if (value === undefined && !this.#reply.sent && this.req.destroyed) this.#reply.send()
    this.#wait().resolve(value)
  }

  fail(error: unknown): void {
    this.#unwait()
    this.#wait().reject(error)
  }

  send(answer: Answer): void {
    const reply = this.#reply
    this.#unwait()
    this.#sent = true
    if (this.#before || (answer.body !== null && !hasType(answer))) {
      for (const [name, value] of flatHeaders(this.#before ?? reply.getHeaders())) this.res.setHeader(name, value)
      reply.hijack()
      writeAnswer(this.res, answer)
    } else {
      void reply.code(answer.status)
      for (const [name, value] of answer.headers) void reply.header(name, value)
      void (answer.body === null ? reply.send() : reply.send(payloadOf(answer, answer.body)))
    }
    this.sent(reply)
  }

  /** After an answer that is not the handler's. */
  protected sent(reply: FastifyReply): void {
    this.#rest?.resolve(reply)
  }

  #unwait(): void {
    if (this.#before) Reflect.set(this.#reply, 'then', (Object.getPrototypeOf(this.#reply) as FastifyReply).then)
  }

  #wait(): Deferred<unknown> {
    return (this.#rest ??= deferred())
  }
}

/** Of answers that are sent more than once. */
const payloads = new WeakMap<Answer, Buffer | string>()

function payloadOf(answer: Answer, body: Uint8Array): Buffer | string {
  let payload = payloads.get(answer)
  if (payload === undefined) {
    payload = payloadMade(answer, asBuffer(body))
    payloads.set(answer, payload)
  }
  return payload
}

/** Text leaves in one piece with its head, which costs half; it must be the same bytes again. */
function payloadMade({ headers }: Answer, bytes: Buffer): Buffer | string {
  const isText = bytes.byteLength <= JOINED_BYTES_MAX && isUtf8(bytes) && headers.every(([, value]) => isPlain(value))
  return isText ? bytes.toString() : bytes
}

/** Node would write other characters of a head as UTF-8, too. */
function isPlain(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7e) return false
  return true
}

/** Fastify calls bytes without a type an octet stream. */
function hasType({ headers }: Answer): boolean {
  return headers.some(([name]) => name === 'content-type')
}
