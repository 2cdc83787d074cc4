import { once as onceEvent } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type Request, type RequestHandler } from 'express'
import { loadPeer } from '../packages.ts'
import type { StartPeer } from './peer.ts'

interface Resource {
  readonly idempotencyKey: string
}
interface DataAdapter {
  findByIdempotencyKey(key: string): Promise<Resource | null>
  create(resource: Resource): Promise<void>
  update(resource: Resource): Promise<void>
  delete(key: string): Promise<void>
}
interface Peer {
  idempotency(options: { dataAdapter: DataAdapter }): RequestHandler
  getSharedIdempotencyService(): { isHit(request: Request): boolean }
}
interface RedisClient {
  get(key: string): Promise<string | null>
  set(key: string, value: string, options: { PX: number }): Promise<unknown>
  del(key: string): Promise<unknown>
}
interface Redis {
  createClient(options: { url: string }): { connect(): Promise<RedisClient> }
}

const DAY = { PX: 86_400_000 }

/** Its middleware. Its own storage is an array that it searches from end to end, so it gets Redis, by its interface. */
export const startExpressIdempotency: StartPeer = async ({ redisUrl, charge }) => {
  const { idempotency, getSharedIdempotencyService } = await loadPeer<Peer>('express-idempotency')
  const { createClient } = await loadPeer<Redis>('@redis/client')
  const client = await createClient({ url: redisUrl }).connect()
  const save = async (resource: Resource): Promise<void> => {
    await client.set(resource.idempotencyKey, JSON.stringify(resource), DAY)
  }
  const dataAdapter: DataAdapter = {
    findByIdempotencyKey: async (key) => JSON.parse((await client.get(key)) ?? 'null') as Resource | null,
    create: save,
    update: save,
    delete: async (key) => {
      await client.del(key)
    },
  }
  const app = express()
  app.use(express.json())
  app.post('/charge', idempotency({ dataAdapter }), (req, res, next) => {
    if (getSharedIdempotencyService().isHit(req)) return
    charge(req.body).then((charged) => res.status(201).json(charged), next)
  })
  const server = app.listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  return { port: (server.address() as AddressInfo).port }
}
