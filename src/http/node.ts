import type { Events } from '../outbox/event.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { AnswerBatched } from './batched.ts'
import { isOnceError } from '../errors.ts'
import { insideAnother } from './bound.ts'
import { askForBody } from './continue.ts'
import { type Exchange, noAnswer } from './exchange.ts'
import { ignoreLater, isHeld } from './held-response.ts'
import { digestCheck, type Incoming, keyOf } from './incoming.ts'
import { bodyOf } from './node-body.ts'
import { NodeRun } from './node-run.ts'
import { serveNodeStream } from './node-stream.ts'
import { passingOperation } from './passing.ts'
import { commitFailure, type ProtectedRoute } from './protected-route.ts'
import { shareShape } from './response-shape.ts'

/**
 * Serves one request, for every framework on node:http. Never rejects. If the body was already parsed, a replay from
 * memory is sent before this function returns.
 */
export async function serve<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: Exchange<Req>,
  batched?: AnswerBatched<Req>,
): Promise<void> {
  const { req, res, target, pattern, request: seen } = exchange
  const { route, instance } = protection
  const method = req.method ?? ''
  if (!protection.protects(method)) return passBy(exchange)
  if (isHeld(res)) return exchange.fail(insideAnother())
  shareShape(res)
  let handler: NodeRun<Tx, E, Req> | undefined
  try {
    const sent = keyValues(exchange, route.headerKey)
    const key = keyOf(route, sent)
    if (sent?.[0] !== undefined) res.setHeader(route.headerKey, sent[0])
    const header = headerOf(exchange)
    askForBody(res)
    const found = bodyOf(req, exchange.seen, route.bodyLimit, route.digest ? digestCheck(header) : undefined)
    const { body, parsed, coded, digested = false } = found instanceof Promise ? await found : found
    const incoming = { method, target, pattern, request: seen, header, body, parsed, coded, digested }
    const request = protection.request(incoming, key, false)
    if (route.streams === 'record') return await serveNodeStream(protection, exchange, incoming, request)
    const known = protection.remembered(request)
    if (known) return sendStored(protection, exchange, known)
    if (batched) {
      const answer = await batched(incoming, request)
      return sendStored(protection, exchange, answer)
    }
    handler = new NodeRun(protection, exchange, request)
    const outcome =
      route.leaseMs === null
        ? await instance.atomic(request, handler.produce)
        : await protection.leased(incoming, request, handler.produceLeased())
    const stored = outcome.replayed ? await protection.replay(incoming, request, outcome) : undefined
    try {
      // The handler may have run in vain: if its refusal lost the claim, the stored answer counts.
      if (stored) handler.discard(() => exchange.send(stored))
      else handler.release()
    } catch (error) {
      endUnsent(protection, exchange, error)
    }
  } catch (error) {
    if (!handler) return answerError(protection, exchange, error)
    // After the handler was called, its own errors are already answered. Any other error here made the commit fail.
    const late = handler.unanswered && isOnceError(error, 'ONCE_DEADLINE')
    const found = late ? noAnswer(pattern) : handler.called ? commitFailure(error) : error
    const run = handler
    if (run.called && isOnceError(found) && protection.leaves(found)) run.fail(found, protection.document(found))
    else run.discard(() => answerError(protection, exchange, found))
  }
}

function sendStored<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: Exchange<Req>,
  answer: Answer,
): void {
  try {
    exchange.send(answer)
  } catch (error) {
    endUnsent(protection, exchange, error)
  }
}

/**
 * Code around the route could not send the committed answer. The connection ends, because any other answer would be
 * wrong about the effect.
 */
function endUnsent<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: Exchange<Req>,
  error: unknown,
): void {
  protection.tell(error, exchange)
  ignoreLater(exchange.res)
  exchange.handled(undefined)
  exchange.res.destroy()
}

function answerError<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: Exchange<Req>,
  error: unknown,
): void {
  try {
    const problem = protection.problem(error, exchange)
    if (problem) exchange.send(problem)
    else exchange.fail(error)
  } catch {
    // If code around the route cannot send even this, end the connection, not the process.
    exchange.res.destroy()
  }
}

/**
 * Returns every value of a header. Node joins repeated headers with commas, so a value without a comma is the only one.
 */
function keyValues<Req>({ req }: Exchange<Req>, name: string): readonly string[] | undefined {
  const value = req.headers[name]
  if (value === undefined || (typeof value === 'string' && name === 'idempotency-key' && !value.includes(','))) {
    return value === undefined ? undefined : [value]
  }
  const { rawHeaders } = req
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) values.push(rawHeaders[i + 1] as string)
  }
  return values
}

function headerOf<Req>({ req }: Exchange<Req>): Incoming<Req>['header'] {
  return (name) => {
    const value = req.headers[name]
    return typeof value === 'string' ? value : value?.join(', ')
  }
}

/** For methods that are not protected: runs the handler as on a plain route. */
async function passBy<Req>(exchange: Exchange<Req>): Promise<void> {
  try {
    exchange.handled(await exchange.handle(passingOperation(exchange.req.method ?? ''), never))
  } catch (error) {
    exchange.fail(error)
  }
}

const never = (): Promise<never> => new Promise(() => {})
