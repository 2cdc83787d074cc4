import type { Events } from '../outbox/event.ts'
import type { AnswerBatched } from './batched.ts'
import { isOnceError } from '../errors.ts'
import { insideAnother } from './bound.ts'
import { type Exchange, noAnswer } from './exchange.ts'
import { isHeld } from './held-response.ts'
import { digestCheck, type Incoming, keyOf } from './incoming.ts'
import { bodyOf, type NodeBody } from './node-body.ts'
import { NodeRun } from './node-run.ts'
import { passingOperation } from './passing.ts'
import { commitFailure, type Protection } from './protection.ts'

/**
 * From the request to its answer, for everything that stands on node:http. Never throws. Without a wait where none is
 * needed: a replay from memory is answered before this returns, when its body was parsed before.
 */
export function serve<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  batched?: AnswerBatched<Req>,
): void {
  const { req } = exchange
  if (!protection.protects(req.method ?? '')) return void passBy(exchange)
  if (isHeld(exchange.res)) return exchange.fail(insideAnother())
  const refuse = (error: unknown): void => answerError(protection, exchange, error)
  try {
    const { route } = protection
    const sent = keyValues(exchange, route.headerKey)
    const key = keyOf(route, sent)
    if (sent?.[0] !== undefined) exchange.res.setHeader(route.headerKey, sent[0])
    const header = headerOf(exchange)
    const check = route.digest ? digestCheck(header) : undefined
    const body = bodyOf(req, exchange.seen, route.bodyLimit, check)
    const asked = { key, header, batched }
    if (body instanceof Promise) body.then((found) => answer(protection, exchange, asked, found)).catch(refuse)
    else void answer(protection, exchange, asked, body)
  } catch (error) {
    refuse(error)
  }
}

interface Asked<Req> extends Pick<Incoming<Req>, 'header'> {
  readonly key: string
  readonly batched: AnswerBatched<Req> | undefined
}

/** Never rejects. A replay from memory is sent before this returns. */
async function answer<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  { key, header, batched }: Asked<Req>,
  body: NodeBody,
): Promise<void> {
  let handler: NodeRun<Tx, E, Req> | undefined
  try {
    const { target, pattern, request: seen } = exchange
    const incoming = { method: exchange.req.method ?? '', target, pattern, request: seen, header, ...body }
    const request = protection.request(incoming, key, false)
    const known = protection.remembered(request)
    if (known) return exchange.send(known)
    if (batched) return exchange.send(await batched(incoming, request))
    handler = new NodeRun(protection, exchange)
    const reply =
      protection.route.leaseMs === null
        ? await protection.atomic(incoming, request, handler.produce)
        : await protection.leased(incoming, request, handler.produceLeased)
    if (reply.kind === 'fresh') handler.release()
    // A handler may have run for nothing: a refusal that lost its claim is answered by the record.
    else handler.discard(() => exchange.send(reply.answer))
  } catch (error) {
    if (!handler) return answerError(protection, exchange, error)
    // Once the handler was called its own errors are answered; what still gets here broke the commit.
    const late = handler.unanswered && isOnceError(error, 'ONCE_DEADLINE')
    const found = late ? noAnswer(exchange.pattern) : handler.called ? commitFailure(error) : error
    handler.discard(() => answerError(protection, exchange, found, error))
  }
}

function answerError<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  error: unknown,
  thrown: unknown = error,
): void {
  try {
    const problem = protection.problem(error)
    if (problem) exchange.send(problem)
    else exchange.fail(thrown)
  } catch {
    // Something around the route cannot even send this: a connection that ends is better than a process that does.
    exchange.res.destroy()
  }
}

/** Each value of a header by itself. Node joins those it does not know with a comma: without one there is one. */
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

/** Methods that are not protected: the handler runs as if we were not here. */
async function passBy<Req>(exchange: Exchange<Req>): Promise<void> {
  try {
    exchange.handled(await exchange.handle(passingOperation(exchange.req.method ?? ''), never))
  } catch (error) {
    exchange.fail(error)
  }
}

const never = (): Promise<never> => new Promise(() => {})
