import type { Events } from '../outbox/event.ts'
import type { Exchange } from './exchange.ts'
import { digestOf, type Incoming, keyOf } from './incoming.ts'
import { bodyOf } from './node-body.ts'
import { NodeRun } from './node-run.ts'
import { passingOperation } from './passing.ts'
import { commitFailure, type Protection } from './protection.ts'

/** From the request to its answer, for everything that stands on node:http. Never rejects. */
export async function serve<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
): Promise<void> {
  const { req } = exchange
  if (!protection.protects(req.method ?? '')) return passBy(exchange)
  let run: NodeRun<Tx, E, Req> | undefined
  try {
    const { route } = protection
    const key = keyOf(route, req.headersDistinct[route.headerKey])
    const incoming = await incomingOf(protection, exchange)
    const request = protection.request(incoming, key, false)
    run = new NodeRun(protection, exchange)
    const reply =
      route.leaseMs === null
        ? await protection.atomic(incoming, request, run.produce)
        : await protection.leased(incoming, request, run.produceLeased)
    const { kind } = reply
    if (kind === 'fresh') run.release()
    // A handler may have run for nothing: a refusal that lost its claim is answered by the record.
    else run.discard(() => exchange.send(reply.answer))
  } catch (error) {
    // Once the handler was called its own errors are answered; what still gets here broke the commit.
    const problem = protection.problem(run?.called ? commitFailure(error) : error)
    const answer = (): void => (problem ? exchange.send(problem) : exchange.fail(error))
    if (run) run.discard(answer)
    else answer()
  }
}

async function incomingOf<Tx, E extends Events, Req>(
  { route }: Protection<Tx, E, Req>,
  { req, request, target, pattern, seen }: Exchange<Req>,
): Promise<Incoming<Req>> {
  const header = (name: string): string | undefined => {
    const value = req.headers[name]
    return typeof value === 'string' ? value : value?.join(', ')
  }
  const base = { method: req.method ?? '', target, pattern, request, header }
  if (route.digest && digestOf(base) !== undefined) {
    return { ...base, body: undefined, parsed: undefined, digested: true }
  }
  return { ...base, ...(await bodyOf(req, seen)) }
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
