import Fastify from 'fastify'
import type { Charge, Charged } from '../../support/charge.ts'
import { loadPeer } from '../packages.ts'
import type { StartPeer } from './peer.ts'

interface Keyed {
  readonly key: string
  readonly charge: Charge
}
type Run = (input: Keyed) => Promise<Charged>
interface Idempotency {
  readonly IdempotencyConfig: new (options: object) => object
  makeIdempotent(run: Run, options: { persistenceStore: object; config: object }): Run
}
interface Cache {
  readonly CachePersistenceLayer: new (options: { client: object }) => object
}
interface Redis {
  createClient(options: { url: string }): { connect(): Promise<object> }
}

/** A function made idempotent by its key, the charge validated, over its cache persistence layer and Redis. */
export const startPowertools: StartPeer = async ({ redisUrl, charge }) => {
  const { IdempotencyConfig, makeIdempotent } = await loadPeer<Idempotency>('@aws-lambda-powertools/idempotency')
  const { CachePersistenceLayer } = await loadPeer<Cache>('@aws-lambda-powertools/idempotency/cache')
  const { createClient } = await loadPeer<Redis>('@redis/client')
  const client = await createClient({ url: redisUrl }).connect()
  const run = makeIdempotent((input) => charge(input.charge), {
    persistenceStore: new CachePersistenceLayer({ client }),
    config: new IdempotencyConfig({
      eventKeyJmesPath: 'key',
      payloadValidationJmesPath: 'charge',
      expiresAfterSeconds: 86_400,
      throwOnNoIdempotencyKey: true,
    }),
  })
  const app = Fastify()
  app.post<{ Body: Charge }>('/charge', async (request, reply) => {
    const key = String(request.headers['idempotency-key'])
    return reply.code(201).send(await run({ key, charge: request.body }))
  })
  return { port: Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port) }
}
