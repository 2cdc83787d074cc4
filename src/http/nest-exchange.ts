import type { Request, Response } from 'express'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Answer } from '../lifecycle/answer.ts'
import { deferred } from './deferred.ts'
import { ignoreLater } from './held-response.ts'
import { FastifyExchange } from './fastify-exchange.ts'
import { type AnyOperation, type Exchange, writeAnswer } from './exchange.ts'

export type NestRequest = Request | FastifyRequest

/** The rest of Nest's work on a request after its handler. */
export interface NestExchange {
  readonly exchange: Exchange<NestRequest>
  /** Nest sends the handler's value, or its filters answer the handler's error. */
  readonly rest: Promise<unknown>
}

class NestOnFastify<Req> extends FastifyExchange<Req> {
  /** The logger of Fastify is off under Nest, as a rule. */
  override readonly log = undefined

  /** Nest continues, so that its interceptors end. Its second answer is ignored. */
  protected override sent(reply: FastifyReply, answer: Answer): void {
    Reflect.set(reply, 'send', () => reply)
    this.handled(valueOf(answer))
  }
}

/** The value that interceptors see for an answer that is not the handler's. */
function valueOf({ headers, body }: Answer): unknown {
  if (body === null || !headers.some(([name, value]) => name === 'content-type' && value.includes('json')))
    return undefined
  try {
    return JSON.parse(new TextDecoder().decode(body)) as unknown
  } catch {
    return undefined
  }
}

/** Nest runs on Express or Fastify. With both, its answer arrives in the held response. */
export function nestExchange(
  request: NestRequest,
  response: Response | FastifyReply,
  pattern: string,
  handle: (op: AnyOperation) => Promise<unknown>,
  next: (error: unknown) => void,
): NestExchange {
  if ('raw' in response) {
    const exchange = new NestOnFastify<NestRequest>(request as FastifyRequest, response, pattern, handle)
    return { exchange, rest: exchange.rest as Promise<unknown> }
  }
  const rest = deferred<unknown>()
  let goesOn = false
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
    handled: (value) => {
      goesOn = true
      rest.resolve(value)
    },
    fail: (error) => {
      if (goesOn) next(error)
      else rest.reject(error)
      goesOn = true
    },
    send: (answer) => {
      writeAnswer(response, answer)
      ignoreLater(response)
      rest.resolve(valueOf(answer))
    },
  }
  return { exchange, rest: rest.promise }
}
