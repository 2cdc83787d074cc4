import type { Events } from '../outbox/event.ts'
import type { AnswerBatched } from './batched.ts'
import type { Exchange } from './exchange.ts'
import { digestOf, type Incoming, keyOf } from './incoming.ts'
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
  const refuse = (error: unknown): void => answerError(protection, exchange, error)
  try {
    const { route } = protection
    const key = keyOf(route, keyValues(exchange, route.headerKey))
    const header = headerOf(exchange)
    const body = route.digest && digestOf({ header }) !== undefined ? DIGESTED : bodyOf(req, exchange.seen)
    const go = (found: NodeBody): void => {
      const { target, pattern, request } = exchange
      start(protection, exchange, batched, key, {
        method: req.method ?? '',
        target,
        pattern,
        request,
        header,
        ...found,
      })
    }
    if (body instanceof Promise) body.then(go).catch(refuse)
    else go(body)
  } catch (error) {
    refuse(error)
  }
}

const DIGESTED: NodeBody = { body: undefined, parsed: undefined, coded: false, digested: true }

function start<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  batched: AnswerBatched<Req> | undefined,
  key: string,
  incoming: Incoming<Req>,
): void {
  const request = protection.request(incoming, key, false)
  const known = protection.remembered(request)
  if (known) exchange.send(known)
  else if (batched) {
    batched(incoming, request).then(
      (answer) => exchange.send(answer),
      (error: unknown) => answerError(protection, exchange, error),
    )
  } else void run(protection, exchange, incoming, request)
}

async function run<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  incoming: Incoming<Req>,
  request: ReturnType<Protection<Tx, E, Req>['request']>,
): Promise<void> {
  const handler = new NodeRun(protection, exchange)
  try {
    const reply =
      protection.route.leaseMs === null
        ? await protection.atomic(incoming, request, handler.produce)
        : await protection.leased(incoming, request, handler.produceLeased)
    if (reply.kind === 'fresh') handler.release()
    // A handler may have run for nothing: a refusal that lost its claim is answered by the record.
    else handler.discard(() => exchange.send(reply.answer))
  } catch (error) {
    // Once the handler was called its own errors are answered; what still gets here broke the commit.
    const found = handler.called ? commitFailure(error) : error
    handler.discard(() => answerError(protection, exchange, found, error))
  }
}

function answerError<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
  error: unknown,
  thrown: unknown = error,
): void {
  const problem = protection.problem(error)
  if (problem) exchange.send(problem)
  else exchange.fail(thrown)
}

/** Each value of a header by itself. Node joins those it does not know with a comma: without one there is one. */
function keyValues<Req>({ req }: Exchange<Req>, name: string): readonly string[] | undefined {
  const value = name === 'idempotency-key' ? req.headers[name] : req.headersDistinct[name]
  if (value === undefined || typeof value !== 'string') return value
  return value.includes(',') ? req.headersDistinct[name] : [value]
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
