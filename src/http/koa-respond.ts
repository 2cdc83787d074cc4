import { pipeline, Readable } from 'node:stream'
import type { ParameterizedContext } from 'koa'
import { onceError } from '../errors.ts'

/** Does what Koa does with a context after its middleware, for an answer that is given inside `commit`. */
export function respond(ctx: ParameterizedContext): void {
  const { res, response } = ctx
  const body: unknown = ctx.body
  if (body === undefined && ctx.status === 404) {
    throw onceError('ONCE_NO_ANSWER', {
      detail: 'Set ctx.body or ctx.status inside commit, so that the answer commits with the effect',
    })
  }
  ctx.respond = false
  const stream = streamOf(body)
  if (stream) pipeline(stream, res, (error) => error && ctx.onerror(error))
  else if (body instanceof Uint8Array || typeof body === 'string') res.end(body)
  else if (isEmpty(ctx.status) || Reflect.get(response, '_explicitNullBody')) res.end()
  else endWithText(ctx, body)
}

/** Sends JSON. Without a body, it sends the text of the status. */
function endWithText(ctx: ParameterizedContext, body: unknown): void {
  const isJson = body !== undefined && body !== null
  const text = isJson ? JSON.stringify(body) : (ctx.req.httpVersionMajor < 2 && ctx.message) || String(ctx.status)
  if (!isJson) ctx.type = 'text'
  ctx.length = Buffer.byteLength(text)
  ctx.res.end(text)
}

function streamOf(body: unknown): Readable | undefined {
  if (body instanceof Blob) return Readable.from(body.stream())
  if (body instanceof Response) return Readable.from(body.body ?? [])
  if (body instanceof ReadableStream) return Readable.from(body)
  return typeof (body as { pipe?: unknown } | null | undefined)?.pipe === 'function' ? (body as Readable) : undefined
}

function isEmpty(status: number): boolean {
  return status === 204 || status === 205 || status === 304
}
