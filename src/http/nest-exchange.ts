import type { Request, Response } from 'express'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { deferred } from './deferred.ts'
import { FastifyExchange } from './fastify-exchange.ts'
import { type AnyOperation, type Exchange, writeAnswer } from './exchange.ts'

export type NestRequest = Request | FastifyRequest

/** What Nest still has to do with a request once its handler is done. */
export interface NestExchange {
  readonly exchange: Exchange<NestRequest>
  /** The handler's value, which Nest sends; its error, which Nest's filters answer; pending when we answered. */
  readonly rest: Promise<unknown>
}

/** Nest is left waiting after an answer of ours: it would answer once more. */
class NestOnFastify<Req> extends FastifyExchange<Req> {
  protected override sent(): void {}
}

/** Nest stands on Express or on Fastify; either way its answer ends in the held response. */
export function nestExchange(
  request: NestRequest,
  response: Response | FastifyReply,
  pattern: string,
  handle: (op: AnyOperation) => Promise<unknown>,
): NestExchange {
  if ('raw' in response) {
    const exchange = new NestOnFastify<NestRequest>(request as FastifyRequest, response, pattern, handle)
    return { exchange, rest: exchange.rest as Promise<unknown> }
  }
  const rest = deferred<unknown>()
  const req = request as Request
  const exchange: Exchange<NestRequest> = {
    request,
    pattern,
    handle,
    req,
    res: response,
    target: req.originalUrl,
    seen: req as { body?: unknown; rawBody?: unknown },
    answersLater: true,
    handled: rest.resolve,
    fail: rest.reject,
    send: (answer) => writeAnswer(response, answer),
  }
  return { exchange, rest: rest.promise }
}
