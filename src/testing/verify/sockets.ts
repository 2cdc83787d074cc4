import { Socket } from 'node:net'
import type { Boundaries } from './boundaries.ts'
import { answerLabel, requestLabel, statementLabel } from './label.ts'
import { isPostgresStartup, PostgresWire } from './postgres-wire.ts'

type Write = (this: Socket, chunk: unknown, ...rest: unknown[]) => boolean
type Push = (this: Socket, chunk: unknown, ...rest: unknown[]) => boolean
type Protocol = 'http' | 'other' | PostgresWire

/** What is known of one connection. */
interface Connection {
  protocol: Protocol
  /** Called when the first bytes of the reply arrive. */
  replied: (() => void)[]
}

/** Our own tables. A statement of the store may be sent later, from a queue of the client. */
const OURS = /effectively_once/

/**
 * Makes a boundary of everything that leaves this process on a socket: statements of PostgreSQL clients, HTTP requests
 * and answers, and writes to other servers. `isOurs`: the store itself is writing, and has boundaries of its own.
 */
export function watchSockets(boundaries: Boundaries, isOurs: () => boolean): void {
  const connections = new WeakMap<Socket, Connection>()
  const prototype = Socket.prototype as unknown as { write: Write; push: Push }
  const { write, push } = prototype

  prototype.write = function (chunk, ...rest) {
    const bytes = bytesOf(chunk)
    if (bytes !== undefined) {
      const connection = connections.get(this) ?? { protocol: protocolOf(bytes), replied: [] }
      connections.set(this, connection)
      for (const label of labelsOf(this, connection, bytes)) {
        if (isOurs() || OURS.test(label)) continue
        if (label.startsWith('HTTP answer')) boundaries.end(label)
        else connection.replied.push(boundaries.pass(label))
      }
    }
    return write.call(this, chunk, ...rest)
  }

  // Not a listener for 'data': that would start the flow of a stream that nobody reads yet.
  prototype.push = function (chunk, ...rest) {
    const replied = chunk === null ? undefined : connections.get(this)?.replied.splice(0)
    for (const passed of replied ?? []) passed()
    return push.call(this, chunk, ...rest)
  }
}

function bytesOf(chunk: unknown): Buffer | undefined {
  if (typeof chunk === 'string') return Buffer.from(chunk, 'latin1')
  return chunk instanceof Uint8Array ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : undefined
}

function protocolOf(bytes: Buffer): Protocol {
  if (isPostgresStartup(bytes)) return new PostgresWire()
  const head = headOf(bytes)
  return requestLabel(head) === undefined && answerLabel(head) === undefined ? 'other' : 'http'
}

function labelsOf(socket: Socket, { protocol }: Connection, bytes: Buffer): string[] {
  if (protocol instanceof PostgresWire) {
    return isPostgresStartup(bytes) ? [] : protocol.statements(bytes).map(statementLabel)
  }
  if (protocol === 'http') {
    // The parts of a body have no label.
    const head = headOf(bytes)
    const label = requestLabel(head) ?? answerLabel(head)
    return label === undefined ? [] : [label]
  }
  // Standard output is a socket too, without an address. A server's own socket answers others.
  const isServers = Boolean((socket as { server?: unknown }).server)
  return socket.remoteAddress === undefined || isServers ? [] : [`call to ${socket.remoteAddress}:${socket.remotePort}`]
}

const HEAD_BYTES_MAX = 2_000

function headOf(bytes: Buffer): string {
  return bytes.toString('latin1', 0, HEAD_BYTES_MAX)
}
