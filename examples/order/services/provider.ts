/**
 * An external service that takes payments, books couriers and sends mail. It honours idempotency keys, counts requests, and loses the
 * answer to every fourth request after it has done the work. It is never killed, so its books show what really
 * happened.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { serve } from './serve.ts'

/** One effect, and how often it was requested. */
export interface Entry {
  readonly order: string
  readonly kind: 'payment' | 'refusal' | 'mail' | 'courier' | 'cancellation'
  readonly at: number
  asked: number
}

const KINDS: Readonly<Record<string, Entry['kind']>> = {
  '/mails': 'mail',
  '/couriers': 'courier',
  '/cancellations': 'cancellation',
}
const LATENCY_MS = 30
const LOSES_EVERY = 4
const books = new Map<string, Entry>()
let asked = 0

serve((req, res) => {
  if (req.method === 'GET') answer(res, 200, [...books.values()])
  else work(req, res).catch(() => res.destroy())
})

async function work(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { order, card } = JSON.parse(await text(req)) as { order: string; card?: string }
  const key = String(req.headers['idempotency-key'])
  const kind = KINDS[req.url ?? ''] ?? (card === 'declined' ? 'refusal' : 'payment')
  const known = books.get(key)
  const entry: Entry = known ?? { order, kind, at: Date.now(), asked: 0 }
  entry.asked++
  books.set(key, entry)
  await new Promise((resolve) => setTimeout(resolve, LATENCY_MS))
  if (++asked % LOSES_EVERY === 0) return void res.destroy()
  answer(res, 200, { id: `${kind}-${key.slice(0, 8)}`, declined: kind === 'refusal' })
}

function answer(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
