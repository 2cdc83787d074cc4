import { Readable } from 'node:stream'
import Fastify from 'fastify'
import { idempotency } from '../../../src/entry/fastify.ts'
import type { Started, World } from '../world.ts'
import { piecesOf, textOf, userOf } from './parts.ts'
import { contractBatched } from '../../../src/testing/http-contract/index.ts'
import type { ContractAnswer } from '../../../src/testing/http-contract/index.ts'
import type { FastifyReply } from 'fastify'

export async function startFastify({ once, routes }: World): Promise<Started> {
  const app = Fastify({ forceCloseConnections: true })
  const idempotent = idempotency(once, { scope: (request) => userOf(request.headers) })
  for (const route of routes) {
    const handler =
      route.lease === undefined
        ? idempotent(route.options, async (request, reply, op) => {
            const answer = await route.handle({ body: textOf(request.body), user: '' }, op)
            return answer ? send(reply, answer) : undefined
          })
        : idempotent({ ...route.options, lease: route.lease }, async (request, reply, op) => {
            const seen = { body: textOf(request.body), user: '' }
            await route.before(op, seen)
            return op.commit(async (inner) => {
              await send(reply, await route.commit(inner, seen))
            })
          })
    app.route({ method: ['POST', 'PATCH', 'DELETE'], url: route.path, handler })
  }
  app.post('/batched', idempotent.batched(contractBatched))
  app.get(
    '/plain',
    idempotent(async () => 'plain'),
  )
  app.get(idempotent.policyPath, idempotent.policyHandler)
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  return { base, close: () => app.close() }
}

function send(reply: FastifyReply, answer: ContractAnswer): FastifyReply {
  void reply.code(answer.status)
  for (const [name, value] of answer.headers ?? []) void reply.header(name, value)
  if (answer.pieces) return reply.send(Readable.from(piecesOf(answer)))
  const { body } = answer
  return reply.send(body instanceof Uint8Array ? Buffer.from(body) : (body ?? undefined))
}
