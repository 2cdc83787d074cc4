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
const READY = 'Z'.charCodeAt(0)
const HEADER = 5

/**
 * Counts what goes over the wire to PostgreSQL, whoever sends it. A statement is an Execute or a simple query. A trip is a
 * Sync or a simple query, unless the server still owes an answer to one before it: then both are one trip.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
export async function startWireMeter(serverUrl: string): Promise<WireMeter> {
  const url = new URL(serverUrl)
  const { hostname, port } = url
  const count: WireCount = { trips: 0, statements: 0 }
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    const owed = { answers: 0 }
    const readClient = reader(UNTYPED_FIRST, (type) => {
      if (type === QUERY || type === EXECUTE) count.statements += 1
      if (type !== QUERY && type !== SYNC) return
      if (owed.answers === 0) count.trips += 1
      owed.answers += 1
    })
    const readServer = reader(TYPED, (type) => {
      // The first one ends the startup, which nobody asked for by a Sync.
      if (type === READY) owed.answers = Math.max(0, owed.answers - 1)
    })
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
      readClient(bytes)
      upstream.write(bytes)
    })
    upstream.on('data', (bytes: Buffer) => {
      readServer(bytes)
      client.write(bytes)
    })
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

/** The startup message of a client alone has no type. */
const UNTYPED_FIRST = 0
const TYPED = 1

/** Reads the messages of one direction of a connection, in whatever pieces they come. */
function reader(first: typeof UNTYPED_FIRST | typeof TYPED, tell: (type: number) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let typed: number = first
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    for (;;) {
      if (rest.length < HEADER) return
      const size = rest.readInt32BE(typed) + typed
      if (rest.length < size) return
      if (typed === TYPED) tell(rest[0] as number)
      typed = TYPED
      rest = rest.subarray(size)
    }
  }
}
