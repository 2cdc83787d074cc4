import type { ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import { answerOfFinal } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import type { Request } from '../operation/request.ts'
import type { Events } from '../outbox/event.ts'
import { sleep, systemClock } from '../platform/clock.ts'
import { type AnyOperation, type Exchange, type ExchangeStreams, setHead } from './exchange.ts'
import type { Incoming } from './incoming.ts'
import { jsonAnswer } from './json-answer.ts'
import type { ProtectedRoute } from './protected-route.ts'
import { StreamResponse } from './stream-response.ts'
import type { Started } from './stream-run.ts'
import { type Served, serveStream } from './stream-serve.ts'

/** How often a connection that is broken off is looked at, until its last bytes have left. */
const LAST_LOOK_MS = 10
const LAST_LOOKS_MAX = 100

/** Serves a recorded stream on node:http. Throws the errors that are answered before the head. */
export async function serveNodeStream<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: Exchange<Req>,
  incoming: Incoming<Req>,
  request: Request,
): Promise<void> {
  const { request: seen, pattern, log, res } = exchange
  let isCalled = false
  const start = (op: unknown): Promise<Started> => {
    isCalled = true
    return started(exchange, op as AnyOperation)
  }
  const startsLate = exchange.streams?.startsLate ?? false
  const leaving = new AbortController()
  const leave = (): void => leaving.abort()
  res.once('close', leave)
  if (res.destroyed) leave()
  const asked = { request: seen, pattern, log, startsLate, start, left: leaving.signal }
  const served = await serveStream(protection, asked, incoming, request)
  if (served.kind === 'answer') return exchange.send(served.answer)
  exchange.streams?.begin(isCalled)
  if (!res.destroyed) await send(res, served)
}

/** For frameworks that pass the response to the handler. */
export function plainStreams(handle: ExchangeStreams['handle']): ExchangeStreams {
  return { startsLate: true, handle, returned: () => {}, begin: () => {} }
}

async function started<Req>(exchange: Exchange<Req>, op: AnyOperation): Promise<Started> {
  if (!exchange.streams) throw onceError('ONCE_UNSUPPORTED', { detail: 'This adapter cannot record streams' })
  const response = new StreamResponse(exchange.req, exchange.res)
  const { streams } = exchange
  const { signal } = op
  // Nobody reads on. A handler that pipes into the response must learn it.
  const stop = (): void => response.fail(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  void (async () => {
    try {
      streams.returned(await streams.handle(op, response.res))
    } catch (error) {
      response.fail(error)
    }
  })()
  try {
    return { ...(await response.head), handlerEnd: 'returned', body: response.body() }
  } catch (error) {
    if (!isFinal(error)) throw error
    const { status, headers, body } = jsonAnswer(answerOfFinal(error))
    return { status, headers, handlerEnd: 'final', body: once(body) }
  }
}

async function* once(body: Uint8Array | null): AsyncGenerator<Uint8Array, void, undefined> {
  if (body) yield body
}

/** Sends what is recorded, as fast as the client reads. */
async function send(res: ServerResponse, served: Served & { readonly kind: 'stream' }): Promise<void> {
  const { status, headers, body } = served
  try {
    setHead(res, status, headers)
    res.flushHeaders()
    for await (const bytes of body) {
      const isWritten = res.write(bytes)
      // Middleware that compresses holds small pieces back.
      ;(res as { flush?: () => void }).flush?.()
      if (!isWritten && !res.destroyed) await drained(res)
    }
    if (!res.destroyed) res.end()
  } catch {
    // The end of such a stream cannot be said in bytes: the client sees that its connection broke.
    await sent(res)
    res.destroy()
  }
}

/** Waits for the last bytes, for a while: the end of a connection would drop them. */
async function sent(res: ServerResponse): Promise<void> {
  for (let looks = 0; looks < LAST_LOOKS_MAX && !res.destroyed; looks++) {
    await sleep(systemClock, LAST_LOOK_MS)
    if (!(res.writableLength > 0)) return
  }
}

function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.removeListener('drain', done)
      res.removeListener('close', done)
      resolve()
    }
    res.once('drain', done)
    res.once('close', done)
  })
}
