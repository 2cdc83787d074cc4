import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Signal } from 'effectively-once'

/** `node <service> <port> <database file> <address…>`: the port, the database and the addresses of other services. */
export const [port = '0', file = '', ...addresses] = process.argv.slice(2)

const LISTEN_AGAIN_MS = 50

/** What a service reports to its parent process: where it listens, and the result of each delivery. */
export type Word = { readonly port: number } | { readonly delivered: true }

export function serve(listener: (req: IncomingMessage, res: ServerResponse) => unknown): void {
  // If the parent is gone, end this process.
  process.on('disconnect', () => process.exit(0))
  process.on('SIGINT', () => {})
  const server = createServer((req, res) => void listener(req, res))
  const listen = (): void => void server.listen(Number(port), '127.0.0.1')
  server.on('listening', () => tell({ port: (server.address() as AddressInfo).port }))
  // While the service was down, an outgoing connection may have taken its port.
  server.on('error', () => setTimeout(listen, LISTEN_AGAIN_MS))
  listen()
}

/** For `observe`: a delivery was settled, whether it brought anything new or not. */
export function tellDeliveries(signal: Signal): void {
  if (signal.kind === 'consumed') tell({ delivered: true })
}

function tell(word: Word): void {
  process.send?.(word)
}
