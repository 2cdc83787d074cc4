import { once as onceEvent } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler } from 'express'
import { idempotency } from '../../src/entry/express.ts'
import { ATOMIC, BATCHED, type ChargeIn, type Ours, type Work } from './work.ts'

export async function startExpress({ once, forgetting, byHand, scope, forgetfulScope }: Work): Promise<number> {
  const app = express()
  app.use(express.json())
  for (const [name, charge] of Object.entries(byHand)) {
    const handler: RequestHandler = async (req, res) => {
      res.status(201).json(await charge(req.body, req.get('idempotency-key') ?? ''))
    }
    app.post(`/${name}`, handler)
  }
  const protectedBy =
    (charge: ChargeIn) =>
    async (req: express.Request, res: express.Response, op: Ours): Promise<void> => {
      res.status(201).json(await charge(req.body, op))
    }
  const idempotent = idempotency(once, { scope })
  const forgetful = idempotency(forgetting, { scope: forgetfulScope })
  app.post('/atomic', idempotent(protectedBy(ATOMIC.atomic)))
  app.post('/atomicEvent', idempotent(protectedBy(ATOMIC.atomicEvent)))
  app.post('/replayMemory', idempotent(protectedBy(ATOMIC.atomic)))
  app.post('/replayDatabase', forgetful(protectedBy(ATOMIC.atomic)))
  app.post('/batched', idempotent.batched(BATCHED.batched))
  app.post('/batchedEvent', idempotent.batched(BATCHED.batchedEvent))
  const server = app.listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  return (server.address() as AddressInfo).port
}
