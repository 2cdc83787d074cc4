import type { IncomingMessage, ServerResponse } from 'node:http'
import { isOnceError, onceError } from '../errors.ts'
import { invalid } from '../options.ts'
import type { Consumer, PushedAnswer, PushedConsumer } from '../consumer/types.ts'
import type { PushedRequest } from '../source/source.ts'
import { collect, tooLarge } from './content-coding.ts'
import { askForBody } from './continue.ts'
import { bodyOf } from './node-body.ts'

/** Returns a consumer that can be mounted. Checks the shape, because a process may load two copies of the package. */
export function pushedConsumer(consumer: Consumer): PushedConsumer {
  if (typeof (consumer as Partial<PushedConsumer> | undefined)?.receive === 'function')
    return consumer as PushedConsumer
  throw invalid('webhook() needs a consumer whose source is pushed, such as stripeSource() or standardWebhooksSource()')
}

/** For every framework on node:http. Reads the raw body. A parser that ran before must have kept the raw bytes. */
export async function receiveNode(
  consumer: PushedConsumer,
  req: IncomingMessage,
  res: ServerResponse,
  seen: { readonly body?: unknown; readonly rawBody?: unknown },
  bytesMax: number,
): Promise<PushedAnswer> {
  try {
    askForBody(res)
    const { body, parsed } = await bodyOf(req, seen, bytesMax)
    if (parsed !== undefined) {
      const detail =
        'A parser read the body before this route, and a signature needs its bytes. Mount webhook() before it, or keep rawBody'
      throw onceError('ONCE_BODY_UNSEEN', { detail })
    }
    return await consumer.receive(requestOf(req.method, req.headers, bytesOf(body)))
  } catch (error) {
    return failure(error)
  }
}

/** For hosts that use Request and Response. */
export async function receiveWeb(consumer: PushedConsumer, request: Request, bytesMax: number): Promise<Response> {
  const { status, headers, body } = await receiveRequest(consumer, request, bytesMax)
  return new Response(body === '' ? null : body, { status, headers })
}

async function receiveRequest(consumer: PushedConsumer, request: Request, bytesMax: number): Promise<PushedAnswer> {
  try {
    const bytes = request.body ? await collect(request.body, bytesMax, () => tooLarge(bytesMax)) : new Uint8Array(0)
    return await consumer.receive(requestOf(request.method, Object.fromEntries(request.headers), bytes))
  } catch (error) {
    return failure(error)
  }
}

export function writeNode(res: ServerResponse, { status, headers, body }: PushedAnswer): void {
  // Other code has answered meanwhile.
  if (res.headersSent) return
  res.writeHead(status, headers)
  res.end(body)
}

function requestOf(
  method: string | undefined,
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  body: Uint8Array,
): PushedRequest {
  const plain: Record<string, string | undefined> = {}
  for (const [name, value] of Object.entries(headers))
    plain[name] = Array.isArray(value) ? value.join(', ') : (value as string)
  return { method: method ?? 'POST', headers: plain, body, now: Date.now() }
}

function bytesOf(body: Uint8Array | string | undefined): Uint8Array {
  return typeof body === 'string' ? Buffer.from(body) : (body ?? new Uint8Array(0))
}

function failure(error: unknown): PushedAnswer {
  const known = isOnceError(error) ? error : onceError('ONCE_INVARIANT', { cause: error })
  if (!isOnceError(error)) process.emitWarning(error instanceof Error ? error : String(error))
  const title = known.message.slice(known.code.length + 1)
  const body = JSON.stringify({
    type: known.code.slice(5).toLowerCase().replaceAll('_', '-'),
    status: known.status,
    title,
  })
  return { status: known.status, headers: { 'content-type': 'application/problem+json' }, body }
}
