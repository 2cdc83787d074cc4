import Fastify from 'fastify'
import type { Charge } from '../../support/charge.ts'
import { loadPeer } from '../packages.ts'
import type { StartPeer } from './peer.ts'

interface Request {
  readonly headers: Record<string, unknown>
  readonly path: string
  readonly body: Charge
  readonly method: string
}
interface Answer {
  readonly body?: unknown
  readonly additional?: { readonly statusCode: number }
}
interface Idempotency {
  onRequest(request: Request): Promise<Answer | undefined>
  onResponse(request: Request, answer: Answer): Promise<void>
}
interface Storage {
  connect(): Promise<void>
}
interface Core {
  readonly Idempotency: new (storage: Storage, options: object) => Idempotency
}
interface Adapter {
  readonly RedisStorageAdapter: new (options: { url: string }) => Storage
}

/** Its core with its Redis storage, called before and after the handler as its documentation shows. */
export const startNodeIdempotency: StartPeer = async ({ redisUrl, charge }) => {
  const { Idempotency } = await loadPeer<Core>('@node-idempotency/core')
  const { RedisStorageAdapter } = await loadPeer<Adapter>('@node-idempotency/storage-adapter-redis')
  const storage = new RedisStorageAdapter({ url: redisUrl })
  await storage.connect()
  const idempotency = new Idempotency(storage, { cacheTTLMS: 86_400_000 })
  const app = Fastify()
  app.post<{ Body: Charge }>('/charge', async (request, reply) => {
    const { headers, url: path, body, method } = request
    const asked = { headers, path, body, method }
    const known = await idempotency.onRequest(asked)
    if (known) return reply.code(known.additional?.statusCode ?? 200).send(known.body)
    const charged = await charge(body)
    await idempotency.onResponse(asked, { body: charged, additional: { statusCode: 201 } })
    return reply.code(201).send(charged)
  })
  return { port: Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port) }
}
