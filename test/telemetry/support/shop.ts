import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { effectivelyOnce, event } from '../../../src/index.ts'
import type { OnceOptions } from '../../../src/index.ts'
import { idempotency } from '../../../src/http/node-http.ts'
import type { Sink } from '../../../src/sink/sink.ts'
import { pgStore } from '../../../src/store/postgres/pg.ts'

export const events = {
  'order.placed': event<{ id: string; note: string }>(({ id }) => id),
  'order.billed': event<{ id: string }>(({ id }) => id),
}

type Told = Pick<OnceOptions<never, typeof events>, 'observe' | 'tracing'>

/** A service on PostgreSQL with one route, for a run whose telemetry is looked at. */
export async function openShop(url: string, told: Told) {
  const pool = new pg.Pool({ connectionString: url, max: 8 })
  const once = effectivelyOnce({ namespace: 'shop', store: pgStore(pool), events, guard: 'off', ...told })
  await once.migrate()
  const idempotent = idempotency(once, { scope: (req) => String(req.headers['x-tenant']), onError: () => {} })
  const place = idempotent(async function place(req, res, op) {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const { id, note } = JSON.parse(Buffer.concat(chunks).toString()) as { id: string; note: string }
    if (note.includes('fail')) throw new RangeError(note)
    await op.publish('order.placed', { id, note })
    res.writeHead(201).end(JSON.stringify({ note }))
  })
  return { pool, once, place }
}

export async function listen(handler: Parameters<typeof createServer>[1]): Promise<{ server: Server; url: string }> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

export function refusing(name: string): Sink {
  return {
    name,
    proves: 'accepted',
    dedupes: false,
    orders: true,
    send: async (sent) => sent.map(() => ({ kind: 'failed', error: new Error('no'), retryable: false })),
  }
}
