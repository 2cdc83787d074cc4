import { onceError } from '../errors.ts'
import { invalid, refuseUnknown } from '../options.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { BatchRefusal } from '../operation/batch-item.ts'
import { answerOfFinal, answerOfValue } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import type { Request } from '../operation/request.ts'
import type { Operation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Row } from '../store/store.ts'
import { pickHeaders, storedHeaders } from './headers.ts'
import type { Incoming } from './incoming.ts'
import { jsonAnswer } from './json-answer.ts'
import { fateOfAnswer, type HandlerEnd, type ProtectedRoute } from './protected-route.ts'
import { toStored } from './stored.ts'

/** A route whose effect is one statement: many requests share one transaction and one fsync. Bodies are JSON. */
export interface BatchedRoute<Req, I, E extends Events> {
  /** Checks the body and gives it a type. If it throws, the framework answers the error. Default: the body as it is */
  parse?: (body: unknown, request: Req) => I | Promise<I>
  statement: (input: I, request: Req) => { sql: string; values: unknown[] }
  /**
   * Returns the answer. Return quickly, because the other requests of the transaction wait. A 4xx answer, or `throw
   * final(…)`, is stored without the effect.
   */
  respond: (
    rows: Row[],
    input: I,
    op: { publish: Operation<never, E>['publish'] },
  ) => BatchedAnswer | Promise<BatchedAnswer>
  /** The most requests that share a transaction. Default 256 */
  max?: number
}

export interface BatchedAnswer {
  /** Default 200 */
  status?: number
  /** Only headers that are replayed: see `keepHeaders`. */
  headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  body?: unknown
}

const OPTIONS = new Set(['parse', 'statement', 'respond', 'max'])

/** Answers one request of a batched route, with a new or a stored answer. */
export type AnswerBatched<Req> = (incoming: Incoming<Req>, request: Request) => Promise<Answer>

export function batchedOf<Tx, E extends Events, Req, I>(
  protection: ProtectedRoute<Tx, E, Req>,
  work: BatchedRoute<Req, I, E>,
): AnswerBatched<Req> {
  refuseUnknown(work, OPTIONS, 'batched()')
  const { parse, statement, respond } = work
  if (typeof statement !== 'function' || typeof respond !== 'function')
    throw invalid('batched() needs statement and respond')
  const { route, instance } = protection
  if (route.leaseMs !== null) throw invalid('a batched route has no lease')
  const run = instance.batcher(work.max)
  return async (incoming, request) => {
    const body = jsonOf(incoming)
    const parsed = parse ? parse(body, incoming.request) : (body as I)
    const input = parsed instanceof Promise ? await protection.inTime(request, parsed) : parsed
    let plain: Answer | undefined
    const settle = async (answer: Answer, handlerEnd: HandlerEnd): Promise<Answer> => {
      plain = { ...answer, headers: checkKept(answer, route.kept) }
      const fate = fateOfAnswer(plain, route, handlerEnd)
      if (fate === 'release') throw new ReleasedAnswer(plain)
      const headers = storedHeaders(plain.headers, route.kept, incoming.header)
      const stored = await toStored(route, request, { ...plain, headers })
      if (fate === 'refuse') throw new BatchRefusal(stored)
      return stored
    }
    try {
      const outcome = await run({
        request,
        statement: statement(input, incoming.request),
        respond: async (rows, publisher) => {
          try {
            const publish: Operation<never, E>['publish'] = (type, data, options) =>
              publisher.publish(type, data, options)
            return await settle(answerOf(await respond(rows as Row[], input, { publish })), 'returned')
          } catch (error) {
            if (isFinal(error)) return await settle(jsonAnswer(answerOfFinal(error)), 'final')
            throw error
          }
        },
      })
      if (outcome.replayed) return await protection.replay(incoming, request, outcome)
    } catch (error) {
      if (!(error instanceof ReleasedAnswer)) throw error
      return error.answer
    }
    if (!plain) throw onceError('ONCE_INVARIANT', { detail: 'an operation completed without an answer' })
    return plain
  }
}

/** An answer that is not final: the effect is rolled back, the key is free, and only this caller gets the answer. */
class ReleasedAnswer extends Error {
  readonly answer: Answer

  constructor(answer: Answer) {
    super('the answer is not final')
    this.answer = answer
  }
}

function answerOf({ status = 200, headers = {}, body }: BatchedAnswer): Answer {
  return jsonAnswer({ ...answerOfValue(body), status, headers: Object.entries(headers) })
}

/** Every retry must get the same headers, so a header that would not be stored is a mistake. */
function checkKept({ headers }: Answer, kept: ReadonlySet<string>): Answer['headers'] {
  const picked = pickHeaders(headers, kept)
  if (picked.length === headers.length) return picked
  const [name] = headers.find(([each]) => !kept.has(each.toLowerCase())) ?? ['']
  throw onceError('ONCE_ANSWER_INVALID', { detail: `A batched answer has the header ${name}; add it to keepHeaders` })
}

function jsonOf<Req>({ body, parsed }: Incoming<Req>): unknown {
  if (body === undefined || body.length === 0) return parsed
  try {
    return JSON.parse(typeof body === 'string' ? body : Buffer.from(body).toString())
  } catch (cause) {
    throw onceError('ONCE_BODY_INVALID', { detail: 'The body of this operation must be JSON', cause })
  }
}
