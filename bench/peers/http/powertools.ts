import Fastify from 'fastify'
import type { Charge, Charged } from '../../support/charge.ts'
import { loadPeer } from '../packages.ts'
import type { StartPeer } from './peer.ts'

interface Keyed {
  readonly key: string
  readonly charge: Charge
}
type Run = (input: Keyed) => Promise<Charged>
interface Config {
  registerLambdaContext(context: { getRemainingTimeInMillis(): number }): void
}
interface Idempotency {
  readonly IdempotencyConfig: new (options: object) => Config
  makeIdempotent(run: Run, options: { persistenceStore: object; config: Config }): Run
}
interface Cache {
  readonly CachePersistenceLayer: new (options: { client: object }) => object
}
interface Redis {
  createClient(options: { url: string }): { connect(): Promise<object> }
}

const TIMEOUT_MS = 30_000

/**
 * A function made idempotent by its key, over its cache persistence layer and Redis. Not with its validation of the payload:
 * in 2.35 this layer forgets the payload's hash when it stores the answer, and then refuses every retry.
 */
export const startPowertools: StartPeer = async ({ redisUrl, charge }) => {
  const { IdempotencyConfig, makeIdempotent } = await loadPeer<Idempotency>('@aws-lambda-powertools/idempotency')
  const { CachePersistenceLayer } = await loadPeer<Cache>('@aws-lambda-powertools/idempotency/cache')
  const { createClient } = await loadPeer<Redis>('@redis/client')
  const client = await createClient({ url: redisUrl }).connect()
  const config = new IdempotencyConfig({
    eventKeyJmesPath: 'key',
    expiresAfterSeconds: 86_400,
    throwOnNoIdempotencyKey: true,
  })
  // When a key in progress expires. Without it, it warns at each call.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => TIMEOUT_MS })
  const run = makeIdempotent((input) => charge(input.charge), {
    persistenceStore: new CachePersistenceLayer({ client }),
    config,
  })
  const app = Fastify()
  app.post<{ Body: Charge }>('/charge', async (request, reply) => {
    const key = String(request.headers['idempotency-key'])
    return reply.code(201).send(await run({ key, charge: request.body }))
  })
  return { port: Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port) }
}
