import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Broker } from './broker.ts'
import type { Message, QueueName } from './services/broker-client.ts'

/** The broker's own port. Services reach the broker over HTTP, as they would reach a real one. */
export async function serveBroker(broker: Broker): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((req, res) => {
    const answer = async (): Promise<void> => {
      const body = await json(req)
      const result = await act(broker, (req.url ?? '').slice(1).split('/'), body)
      res.end(JSON.stringify(result ?? null))
    }
    answer().catch(() => res.writeHead(400).end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

function act(broker: Broker, [first, verb]: readonly string[], body: unknown): unknown {
  if (first === 'publish') return broker.publish(body as readonly Message[])
  const queue = first as QueueName
  switch (verb) {
    case 'receive':
      return broker.receive(queue, body as { max: number; waitMs: number })
    case 'ack':
      return broker.ack(queue, body as readonly string[])
    case 'extend':
      return broker.postpone(queue, body as readonly string[])
    case 'give-back': {
      const { handles, delayMs } = body as { handles: readonly string[]; delayMs: number }
      return broker.postpone(queue, handles, { delayMs, held: false })
    }
    default:
      throw new Error(`no such verb: ${verb}`)
  }
}
