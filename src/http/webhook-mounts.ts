import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Consumer, PushedAnswer } from '../once/consumer-types.ts'
import { pushedConsumer, receiveNode, receiveWeb, writeNode } from './webhook.ts'

type Seen = { readonly body?: unknown; readonly rawBody?: unknown }

/**
 * Mounts a consumer whose source is pushed, on node:http, Express or Nest. It reads the raw body itself: mount it before
 * body parsers, or keep their bytes as `rawBody`.
 *
 * @example
 * app.post('/webhooks/stripe', webhook(billing))
 */
export function nodeWebhook(consumer: Consumer): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  const mounted = pushedConsumer(consumer)
  return async (req, res) => writeNode(res, await receiveNode(mounted, req, req as Seen))
}

/** The same for Request and Response: Next.js, Bun, Deno. */
export function fetchWebhook(consumer: Consumer): (request: Request) => Promise<Response> {
  const mounted = pushedConsumer(consumer)
  return (request) => receiveWeb(mounted, request)
}

/** For Hono. */
export function honoWebhook(consumer: Consumer): (c: { readonly req: { readonly raw: Request } }) => Promise<Response> {
  const mounted = pushedConsumer(consumer)
  return (c) => receiveWeb(mounted, c.req.raw)
}

/** What we use of Koa's context. */
interface KoaContext {
  readonly req: IncomingMessage
  readonly request: unknown
  status: number
  body: unknown
  set(headers: Record<string, string>): void
}

/** For Koa. */
export function koaWebhook(consumer: Consumer): (ctx: KoaContext) => Promise<void> {
  const mounted = pushedConsumer(consumer)
  return async (ctx) => {
    const { status, headers, body } = await receiveNode(mounted, ctx.req, ctx.request as Seen)
    ctx.status = status
    ctx.set({ ...headers })
    ctx.body = body
  }
}

/** What we use of Fastify's reply. */
interface FastifyAnswering {
  code(status: number): FastifyAnswering
  headers(values: Record<string, string>): FastifyAnswering
  send(body: string): unknown
}

/** A Fastify route: answered before Fastify's own parser would take the bytes. */
export interface FastifyWebhook {
  onRequest(request: { readonly raw: IncomingMessage }, reply: FastifyAnswering): Promise<unknown>
  handler(): Promise<void>
}

/**
 * For Fastify, as a route's options.
 *
 * @example
 * app.post('/webhooks/stripe', webhook(billing))
 */
export function fastifyWebhook(consumer: Consumer): FastifyWebhook {
  const mounted = pushedConsumer(consumer)
  return {
    async onRequest({ raw }, reply) {
      const { status, headers, body }: PushedAnswer = await receiveNode(mounted, raw, {})
      return reply
        .code(status)
        .headers({ ...headers })
        .send(body)
    },
    handler: async () => {},
  }
}
