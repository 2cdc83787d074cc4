import { onceError } from '../errors.ts'
import type { Request as OperationRequest } from '../operation/request.ts'
import { answerOfFinal } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import type { Events } from '../outbox/event.ts'
import { bytesOfChunk } from './content-coding.ts'
import type { AnyOperation } from './exchange.ts'
import type { Incoming } from './incoming.ts'
import { jsonAnswer } from './json-answer.ts'
import type { ProtectedRoute } from './protected-route.ts'
import { serveStream } from './stream-serve.ts'
import type { Started } from './stream-run.ts'
import type { Made, WebExchange } from './web-exchange.ts'
import { isResponse, responseOf } from './web.ts'

/** Serves a recorded stream to a web-standard host. */
export async function serveWebStream<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: WebExchange<Req>,
  incoming: Incoming<Req>,
  request: OperationRequest,
): Promise<Response> {
  const { request: seen, pattern, log, web } = exchange
  const leaving = new AbortController()
  // Some hosts have no signal of the client.
  const { signal } = web as { signal?: AbortSignal }
  const leave = (): void => leaving.abort(signal?.reason)
  signal?.addEventListener('abort', leave, { once: true })
  if (signal?.aborted) leave()
  const served = await serveStream(
    protection,
    {
      request: seen,
      pattern,
      log,
      startsLate: exchange.rerunnable,
      left: leaving.signal,
      start: async (op) => startedOf(await called(exchange, op as unknown as AnyOperation), op.signal),
    },
    incoming,
    request,
  )
  if (served.isOwn) exchange.released?.()
  if (served.kind === 'answer') return responseOf(served.answer)
  const { body } = served
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await body.next()
      if (next.done !== true) controller.enqueue(next.value)
      // A reader that is not the client must not take the rest for the end.
      else if (leaving.signal.aborted) controller.error(leaving.signal.reason)
      else controller.close()
    },
    cancel: leave,
  })
  return new Response(stream, { status: served.status, headers: served.headers as [string, string][] })
}

async function called<Req>(exchange: WebExchange<Req>, op: AnyOperation): Promise<Made & { isFinal?: true }> {
  try {
    return await exchange.handle(op)
  } catch (error) {
    if (!isFinal(error)) throw error
    return { response: responseOf(jsonAnswer(answerOfFinal(error))), threw: false, isFinal: true }
  }
}

function startedOf({ response, threw, isFinal: final }: Made & { isFinal?: true }, signal: AbortSignal): Started {
  if (!isResponse(response)) throw onceError('ONCE_NO_ANSWER', { detail: 'The handler returned no Response' })
  if (response.bodyUsed) throw onceError('ONCE_ANSWER_INVALID', { detail: 'The body of the response was already read' })
  const { status, headers, body } = response
  const handlerEnd = final ? 'final' : threw ? 'threw' : 'returned'
  return { status, headers: [...headers], handlerEnd, body: read(body, signal) }
}

/** Reads with `getReader`, because some hosts cannot iterate over a stream. Nobody reads on when the signal aborts. */
function read(body: ReadableStream<Uint8Array> | null, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const reader = body?.getReader()
  const cancel = (): void => void reader?.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  return {
    [Symbol.asyncIterator]() {
      return {
        async next() {
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
          return done ? { done: true, value: undefined } : { done: false, value: bytesOfChunk(value) }
        },
        async return() {
          await reader?.cancel()
          return { done: true, value: undefined }
        },
      }
    },
  }
}
