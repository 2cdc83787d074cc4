/** A server of the chaos run. It produces streams, and may be killed at any time. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pass } from 'node:timers/promises'
import pg from 'pg'
import { idempotency } from '../../src/entry/express.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import type { StreamOperation } from '../../src/operation/types.ts'
import express, { type Request, type Response } from 'express'
import { plain, rest, TYPES, type Stream } from './content.ts'
import type { Memory } from './server.ts'

const REPORT_MS = 200
/** A pause after about this many chunks. */
const BURST = 4

const pool = new pg.Pool({ connectionString: process.env['CHAOS_URL'], max: 8 })
const once = effectivelyOnce({ namespace: 'streams', store: pgStore(pool), guard: 'off', sweep: false })
const label = (req: Request): string => (req.body as Stream).name
const idempotent = idempotency(once, { scope: 'global', label, onError: () => {} })

async function produce(stream: Stream, res: Response, op: StreamOperation<pg.PoolClient, {}>): Promise<void> {
  res.setHeader('content-type', TYPES[stream.kind])
  let burst = 0
  // The content is ASCII. Only events get ids. A large stream must not be held as text: the run measures the memory.
  const written = stream.kind === 'events' ? plain(await op.written.text()).length : op.written.bytes
  for (const chunk of rest(stream, written)) {
    if (op.signal.aborted) throw op.signal.reason
    if (!res.write(chunk)) await new Promise((resolve) => res.once('drain', resolve))
    if (++burst % BURST === 0) await pass(1 + (burst % 5))
  }
  res.end()
}

/** The size of the process also depends on when V8 collects garbage. So what is held is measured after a collection. */
function memory(): Memory {
  const { gc } = globalThis
  gc?.()
  const { rss, heapUsed, external } = process.memoryUsage()
  return { rss, held: gc ? heapUsed + external : null }
}

const app = express().use(express.json())
const LEASED = { streams: 'record', lease: '2s' } as const
app.post(
  '/resumed',
  idempotent({ ...LEASED, resume: true }, (req, res, op) => produce(req.body as Stream, res, op as never)),
)
app.post(
  '/failed',
  idempotent(LEASED, (req, res, op) => produce(req.body as Stream, res, op as never)),
)
const server = createServer(app).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
setInterval(() => process.send?.({ memory: memory() }), REPORT_MS)
process.on('disconnect', () => process.exit())
