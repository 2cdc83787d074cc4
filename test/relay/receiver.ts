import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { once } from 'node:events'
import { webhookSink, type WebhookOptions } from '../../src/sink/webhook.ts'
import type { Sink } from '../../src/sink/sink.ts'
import type { Step } from './world.ts'

const SECRET = `whsec_${Buffer.from('a secret of some length').toString('base64')}`

/** What the receiver does with a step. It counts as acknowledged when the answer's status was 200. */
export type Answer = (step: Step, res: ServerResponse, tries: number) => unknown

export interface Receiver {
  /** The steps that were answered 200, in this order. */
  readonly acknowledged: Step[]
  readonly requests: () => number
  readonly sockets: ReadonlySet<Socket>
  sink(options?: Partial<WebhookOptions>): Sink
  close(): Promise<void>
}

/** A webhook receiver on a real server. */
export async function receiverThat(answer: Answer): Promise<Receiver> {
  const acknowledged: Step[] = []
  const tries = new Map<string, number>()
  const sockets = new Set<Socket>()
  let requests = 0
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('error', () => {})
    res.on('error', () => {})
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      requests++
      const { data, id } = JSON.parse(Buffer.concat(chunks).toString()) as { data: Step; id: string }
      const times = (tries.get(id) ?? 0) + 1
      tries.set(id, times)
      const { writeHead } = res
      res.writeHead = (status: number, ...rest: never[]) => {
        if (status === 200 && !res.destroyed) acknowledged.push(data)
        return writeHead.call(res, status, ...rest)
      }
      void answer(data, res, times)
    })
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    acknowledged,
    requests: () => requests,
    sockets,
    sink: (options) => webhookSink({ url: `http://127.0.0.1:${port}/`, secret: SECRET, name: 'hook', ...options }),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export function say(res: ServerResponse, status = 200): void {
  if (!res.destroyed) res.writeHead(status).end()
}
