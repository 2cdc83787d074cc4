import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Consumer, PushedAnswer } from '../consumer/types.ts'
import { bodyLimitOf } from './route.ts'
import { pushedConsumer, receiveNode, receiveWeb, writeNode } from './webhook.ts'

export interface WebhookOptions {
  /** The most bytes of a delivery. GitHub sends up to 25 MiB. Default 8 MiB */
  bodyLimit?: number
}

type Seen = { readonly body?: unknown; readonly rawBody?: unknown }

/**
 * Mounts a webhook consumer on node:http, Express or Nest. It reads the raw body itself: mount it before body parsers,
 * or keep the raw bytes as `rawBody`.
 *
 * @example
 * app.post('/webhooks/stripe', webhook(billing))
 */
export function nodeWebhook(
  consumer: Consumer,
  options?: WebhookOptions,
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  const mounted = pushedConsumer(consumer)
  const bytesMax = bodyLimitOf(options?.bodyLimit)
  return async (req, res) => writeNode(res, await receiveNode(mounted, req, res, req as Seen, bytesMax))
}

/** Mounts a webhook consumer on `Request` and `Response`: Next.js, Bun, Deno. */
export function fetchWebhook(consumer: Consumer, options?: WebhookOptions): (request: Request) => Promise<Response> {
  const mounted = pushedConsumer(consumer)
  const bytesMax = bodyLimitOf(options?.bodyLimit)
  return (request) => receiveWeb(mounted, request, bytesMax)
}

/** Mounts a webhook consumer on Hono. */
export function honoWebhook(
  consumer: Consumer,
  options?: WebhookOptions,
): (c: { readonly req: { readonly raw: Request } }) => Promise<Response> {
  const mounted = pushedConsumer(consumer)
  const bytesMax = bodyLimitOf(options?.bodyLimit)
  return (c) => receiveWeb(mounted, c.req.raw, bytesMax)
}

/** The part of Koa's context that is used here. */
interface KoaContext {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly request: unknown
  status: number
  body: unknown
  set(headers: Record<string, string>): void
}

/** Mounts a webhook consumer on Koa. */
export function koaWebhook(consumer: Consumer, options?: WebhookOptions): (ctx: KoaContext) => Promise<void> {
  const mounted = pushedConsumer(consumer)
  const bytesMax = bodyLimitOf(options?.bodyLimit)
  return async (ctx) => {
    const { status, headers, body } = await receiveNode(mounted, ctx.req, ctx.res, ctx.request as Seen, bytesMax)
    ctx.status = status
    ctx.set({ ...headers })
    ctx.body = body
  }
}

/** The part of Fastify's reply that is used here. */
interface FastifyAnswering {
  readonly raw: ServerResponse
  code(status: number): FastifyAnswering
  headers(values: Record<string, string>): FastifyAnswering
  send(body: string): unknown
}

/** A Fastify route that answers before Fastify's own parser reads the bytes. */
export interface FastifyWebhook {
  onRequest(request: { readonly raw: IncomingMessage }, reply: FastifyAnswering): Promise<unknown>
  handler(): Promise<void>
}

/**
 * Mounts a webhook consumer on Fastify, as the options of a route.
 *
 * @example
 * app.post('/webhooks/stripe', webhook(billing))
 */
export function fastifyWebhook(consumer: Consumer, options?: WebhookOptions): FastifyWebhook {
  const mounted = pushedConsumer(consumer)
  const bytesMax = bodyLimitOf(options?.bodyLimit)
  return {
    async onRequest({ raw }, reply) {
      const { status, headers, body }: PushedAnswer = await receiveNode(mounted, raw, reply.raw, {}, bytesMax)
      return reply
        .code(status)
        .headers({ ...headers })
        .send(body)
    },
    handler: async () => {},
  }
}
