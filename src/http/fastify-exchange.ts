import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Answer } from '../lifecycle/answer.ts'
import type { Deferred } from './deferred.ts'
import { flatHeaders } from './headers.ts'
import { type Exchange, writeAnswer } from './exchange.ts'

/**
 * Fastify sends what a handler returns, so it goes on when the handler is done (`rest`) and its bytes end in the held
 * response, after serialization and onSend hooks. Nest uses the same on top of Fastify.
 */
export function fastifyExchange<Req>(
  request: FastifyRequest,
  reply: FastifyReply,
  rest: Deferred<unknown>,
  of: Pick<Exchange<Req>, 'request' | 'pattern' | 'handle'>,
): Exchange<Req> {
  const { raw } = reply
  const before = reply.getHeaders()
  let called = false
  return {
    ...of,
    req: request.raw,
    res: raw,
    target: request.originalUrl,
    seen: { body: request.body, rawBody: (request as { rawBody?: unknown }).rawBody },
    answersLater: true,
    handle(op, answered) {
      called = true
      // `return reply` waits for the reply to leave, and it leaves after the handler returned.
      const wait = (fulfilled: (value: undefined) => void): void => {
        const done = (): void => fulfilled(undefined)
        answered().then(done, done)
      }
      // oxlint-disable-next-line no-thenable -- it has one, which waits for what waits for it
      Object.defineProperty(reply, 'then', { value: wait, configurable: true, writable: true })
      return of.handle(op, answered)
    },
    handled(value) {
      Reflect.deleteProperty(reply, 'then')
      // Fastify gives up on a client that left; the answer is wanted all the same.
      if (value === undefined && !reply.sent && raw.req.destroyed) reply.send()
      rest.resolve(value)
    },
    fail(error) {
      Reflect.deleteProperty(reply, 'then')
      rest.reject(error)
    },
    send(answer) {
      Reflect.deleteProperty(reply, 'then')
      if (called || (answer.body !== null && !hasType(answer))) {
        for (const [name, value] of flatHeaders(before)) raw.setHeader(name, value)
        reply.hijack()
        writeAnswer(raw, answer)
      } else {
        void reply.code(answer.status)
        for (const [name, value] of answer.headers) void reply.header(name, value)
        void (answer.body === null ? reply.send() : reply.send(Buffer.from(answer.body)))
      }
      rest.resolve(reply)
    },
  }
}

/** Fastify calls bytes without a type an octet stream. */
function hasType({ headers }: Answer): boolean {
  return headers.some(([name]) => name === 'content-type')
}
