import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { idempotency } from '../../../src/entry/node.ts'
import { contractBatched } from '../../../src/testing/http-contract/index.ts'
import { listen, type Started, type World } from '../world.ts'
import { userOf, writeTo } from './parts.ts'

export function startNode({ once, routes }: World): Promise<Started> {
  const idempotent = idempotency(once, { scope: (req) => userOf(req.headers), onError: () => {} })
  const table = new Map<string, (req: IncomingMessage, res: ServerResponse) => void>()
  for (const route of routes) {
    const listener =
      route.lease === undefined
        ? idempotent(route.options, async (req, res, op) => {
            const answer = await route.handle({ body: await text(req), user: userOf(req.headers) }, op)
            if (answer) writeTo(res, answer)
          })
        : idempotent({ ...route.options, lease: route.lease }, async (req, res, op) => {
            const request = { body: await text(req), user: userOf(req.headers) }
            await route.before(op, request)
            return op.commit(async (inner) => writeTo(res, await route.commit(inner, request)))
          })
    table.set(route.path, listener)
  }
  table.set('/batched', idempotent.batched(contractBatched))
  table.set(
    '/plain',
    idempotent((_req, res) => res.end('plain')),
  )
  table.set(idempotent.policyPath, idempotent.policyHandler)
  return listen(createServer((req, res) => table.get((req.url ?? '').split('?')[0] ?? '')?.(req, res)))
}
