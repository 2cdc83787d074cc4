import { once as onceEvent } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

export interface WireCount {
  /** Times the client has to wait for the server. */
  trips: number
  statements: number
}

export interface WireMeter {
  /** The server's address, by way of the meter. */
  readonly url: string
  readonly count: WireCount
  reset(): void
  close(): Promise<void>
}

const QUERY = 'Q'.charCodeAt(0)
const EXECUTE = 'E'.charCodeAt(0)
const SYNC = 'S'.charCodeAt(0)
const HEADER = 5

/**
 * Counts what goes over the wire to PostgreSQL, whoever sends it: a trip is a Sync or a simple query, a statement is an
 * Execute or a simple query. https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
export async function startWireMeter(serverUrl: string): Promise<WireMeter> {
  const url = new URL(serverUrl)
  const { hostname, port } = url
  const count: WireCount = { trips: 0, statements: 0 }
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    const read = reader(count)
    for (const socket of [client, upstream]) {
      sockets.add(socket.setNoDelay(true))
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(socket)
      })
    }
    client.on('data', (bytes: Buffer) => {
      read(bytes)
      upstream.write(bytes)
    })
    upstream.pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    count,
    reset() {
      count.trips = 0
      count.statements = 0
    },
    async close() {
      const closed = onceEvent(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Reads the messages of one connection, in whatever pieces they come. */
function reader(count: WireCount): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let started = false
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    for (;;) {
      // The startup message alone has no type.
      const typed = started ? 1 : 0
      if (rest.length < HEADER) return
      const size = rest.readInt32BE(typed) + typed
      if (rest.length < size) return
      if (started) tally(rest[0] as number, count)
      started = true
      rest = rest.subarray(size)
    }
  }
}

function tally(type: number, count: WireCount): void {
  if (type === QUERY || type === SYNC) count.trips += 1
  if (type === QUERY || type === EXECUTE) count.statements += 1
}
