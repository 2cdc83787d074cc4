import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Answer } from '../lifecycle/answer.ts'
import { type Deferred, deferred } from './deferred.ts'
import { type AnyOperation, type Exchange, type ExchangeStreams, writeAnswer } from './exchange.ts'
import { withOwnLists } from './headers.ts'
import type { Log } from './report.ts'

/**
 * Fastify sends what a handler returns. So Fastify continues when the handler is done (`rest`), and the bytes arrive in
 * the held response after serialization and onSend hooks. Nest on Fastify uses the same exchange.
 */
export class FastifyExchange<Req> implements Exchange<Req> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly request: Req
  readonly target: string
  readonly pattern: string
  readonly seen: { readonly body?: unknown; readonly rawBody?: unknown }
  readonly answersLater = true
  readonly log: Log | undefined
  readonly #reply: FastifyReply
  readonly #handle: (op: AnyOperation) => unknown
  /** The headers before the handler was called. */
  #before: ReturnType<FastifyReply['getHeaders']> | undefined
  #rest: Deferred<unknown> | undefined
  #sent = false
  #isGiven = false
  #goesOn = false
  #send: FastifyReply['send'] | undefined

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
    this.log = (line, error) => request.log.error(error, line)
    this.#reply = reply
    this.#handle = handle
  }

  /** What Fastify waits for: the handler's value, its error, or the reply. Nothing if the reply has already left. */
  get rest(): Promise<unknown> | undefined {
    return this.#sent && !this.#rest ? undefined : this.#wait().promise
  }

  handle(op: AnyOperation, answered: () => Promise<unknown>): unknown {
    const reply = this.#reply
    this.#before ??= withOwnLists(reply.getHeaders())
    // `return reply` waits for the reply to leave, and it leaves after the handler returned.
    const wait = (fulfilled: (value: undefined) => void): void => {
      const done = (): void => fulfilled(undefined)
      answered().then(done, done)
    }
    // The reply's own `then` would wait for itself. It is assigned, and never deleted, so that replies stay fast.
    Reflect.set(reply, 'then', wait)
    // A hook may have set its own.
    const send = (this.#send ??= reply.send)
    const giving = (...args: Parameters<FastifyReply['send']>): FastifyReply => {
      this.#isGiven = true
      return Reflect.apply(send, reply, args)
    }
    Reflect.set(reply, 'send', giving)
    return this.#handle(op)
  }

  get streams(): ExchangeStreams {
    return {
      // Fastify has gone on by then.
      startsLate: false,
      handle: (op, res) => {
        this.#before ??= withOwnLists(this.#reply.getHeaders())
        this.#send ??= this.#reply.send
        // Everything that Fastify sends for the handler goes into the recorded response.
        Reflect.set(this.#reply, 'raw', res)
        return this.#handle(op)
      },
      returned: (value) => {
        this.#goesOn = true
        this.#wait().resolve(value)
      },
      begin: (isCalled) => {
        this.#sent = true
        if (isCalled) return
        this.#takeReply()
        this.#rest?.resolve(this.#reply)
      },
    }
  }

  handled(value: unknown): void {
    this.#unwait()
    // Fastify gives up if the client left, but the answer must still be stored.
    if (value === undefined && !this.#reply.sent && hasLeft(this.req)) this.#reply.send()
    this.#goesOn = true
    this.#wait().resolve(value)
  }

  isTaken(): boolean {
    return this.#reply.sent
  }

  isAnswering(): boolean {
    return this.#isGiven
  }

  unsay(error: unknown): void {
    const reply = this.#reply
    for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
    for (const [name, value] of Object.entries(this.#before ?? {})) if (value !== undefined) reply.header(name, value)
    // A hook may have failed before. Fastify calls an error handler only once, and answers with the current status.
    this.res.statusCode = statusOfError(error)
  }

  fail(error: unknown): void {
    this.#unwait()
    Reflect.set(this.#reply, 'raw', this.res)
    if (this.#goesOn) this.#reply.send(error)
    else this.#wait().reject(error)
    this.#goesOn = true
  }

  send(answer: Answer): void {
    const reply = this.#reply
    this.#unwait()
    this.#sent = true
    if (this.res.headersSent) return this.sent(reply, answer)
    this.#takeReply()
    writeAnswer(this.res, answer)
    this.sent(reply, answer)
  }

  /** Hooks and serializers have already run for this answer, so its bytes leave unchanged. */
  #takeReply(): void {
    const reply = this.#reply
    for (const [name, value] of Object.entries(this.#before ?? reply.getHeaders())) {
      if (value !== undefined) this.res.setHeader(name, value)
    }
    reply.hijack()
  }

  /** After an answer that is not the handler's. */
  protected sent(reply: FastifyReply, _answer: Answer): void {
    this.#rest?.resolve(reply)
  }

  #unwait(): void {
    if (!this.#before) return
    Reflect.set(this.#reply, 'then', (Object.getPrototypeOf(this.#reply) as FastifyReply).then)
    Reflect.set(this.#reply, 'send', this.#send)
  }

  #wait(): Deferred<unknown> {
    return (this.#rest ??= deferred())
  }
}

/** The same as in Fastify. */
function statusOfError(error: unknown): number {
  const { statusCode, status } = (error ?? {}) as { statusCode?: unknown; status?: unknown }
  const isFailure = (value: unknown): value is number => typeof value === 'number' && value >= 400 && value <= 599
  return isFailure(statusCode) ? statusCode : isFailure(status) ? status : 500
}

/** `destroyed` is also true for a request whose body was read completely. */
function hasLeft(req: IncomingMessage): boolean {
  return Reflect.get(req, 'aborted') || req.socket.destroyed
}
