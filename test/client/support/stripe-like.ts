import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text as textOf } from 'node:stream/consumers'

interface Stored {
  readonly body: string
  readonly status: number
  readonly answer: string
}

export interface StripeLike {
  readonly server: Server
  readonly charges: string[]
  /** What happens to the next requests. */
  readonly next: ('lose the answer' | 'fail' | 'be slow')[]
}

/** A server with the idempotency of Stripe's API: 409 in flight, 400 for another body, and stored failures. */
export function stripeLike(): StripeLike {
  const stored = new Map<string, Stored>()
  const running = new Set<string>()
  const charges: string[] = []
  const next: StripeLike['next'] = []
  const answer = async (req: IncomingMessage, res: ServerResponse): Promise<unknown> => {
    if (req.method === 'GET') return res.writeHead(404).end()
    const key = String(req.headers['idempotency-key'])
    const body = await textOf(req)
    const say = (status: number, answer: string, replayed = false): void => {
      res.writeHead(status, {
        'content-type': 'application/json',
        'idempotency-key': key,
        ...(replayed ? { 'idempotent-replayed': 'true' } : {}),
      })
      res.end(answer)
    }
    const known = stored.get(key)
    if (known && known.body !== body) return say(400, JSON.stringify({ error: { type: 'idempotency_error' } }))
    if (known) return say(known.status, known.answer, true)
    if (running.has(key)) return say(409, JSON.stringify({ error: { code: 'idempotency_key_in_use' } }))
    running.add(key)
    const how = next.shift()
    if (how === 'be slow') await new Promise((resolve) => setTimeout(resolve, 300))
    const status = how === 'fail' ? 500 : 200
    if (status === 200) charges.push(body)
    const text = JSON.stringify(status === 200 ? { id: `ch_${charges.length}` } : { error: { type: 'api_error' } })
    stored.set(key, { body, status, answer: text })
    running.delete(key)
    if (how === 'lose the answer') return req.socket.destroy()
    return say(status, text)
  }
  const server = createServer((req, res) => void answer(req, res))
  return { server, charges, next }
}
