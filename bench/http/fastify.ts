import Fastify from 'fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { idempotency } from '../../src/entry/fastify.ts'
import type { Charge } from '../support/charge.ts'
import { ATOMIC, BATCHED, type ChargeIn, type Ours, type Work } from './work.ts'

type ChargeRequest = FastifyRequest<{ Body: Charge }>

export async function startFastify({ once, forgetting, byHand, scope, forgetfulScope }: Work): Promise<number> {
  const app = Fastify()
  for (const [name, charge] of Object.entries(byHand)) {
    app.post<{ Body: Charge }>(`/${name}`, async (request, reply) =>
      reply.code(201).send(await charge(request.body, request.headers['idempotency-key'] as string)),
    )
  }
  const protectedBy =
    (charge: ChargeIn) =>
    async (request: ChargeRequest, reply: FastifyReply, op: Ours): Promise<FastifyReply> =>
      reply.code(201).send(await charge(request.body, op))
  const idempotent = idempotency(once, { scope })
  const forgetful = idempotency(forgetting, { scope: forgetfulScope })
  app.post('/atomic', idempotent<{ Body: Charge }>(protectedBy(ATOMIC.atomic)))
  app.post('/atomicEvent', idempotent<{ Body: Charge }>(protectedBy(ATOMIC.atomicEvent)))
  app.post('/replayMemory', idempotent<{ Body: Charge }>(protectedBy(ATOMIC.atomic)))
  app.post('/replayDatabase', forgetful<{ Body: Charge }>(protectedBy(ATOMIC.atomic)))
  app.post('/batched', idempotent.batched(BATCHED.batched))
  app.post('/batchedEvent', idempotent.batched(BATCHED.batchedEvent))
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}
