import { BROKER_WITHIN_MS } from '../../limits.ts'
import { invalid } from '../../options.ts'
import { inTime } from '../../platform/in-time.ts'

/** The part of a client of ioredis that sink and source use. */
export interface IoRedisClient {
  readonly status: string
  call(command: string, args: string[]): Promise<unknown>
  multi(commands: string[][]): { exec(): Promise<[error: Error | null, result: unknown][] | null> }
  duplicate(): IoRedisClient
  on(event: 'error', listener: (error: Error) => void): unknown
  disconnect(reconnect?: boolean): void
}

/** The part of a client of node-redis (the package `redis`) that sink and source use. */
export interface NodeRedisClient {
  readonly isReady: boolean
  sendCommand(args: string[]): Promise<unknown>
  multi(): { addCommand(args: string[]): unknown; exec(): Promise<unknown> }
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
  destroy(): void
}

export type RedisClient = IoRedisClient | NodeRedisClient

/** The same few methods over either client. */
export interface RedisCommands {
  /** False: a command would wait in the client's own queue, and be sent after its caller has given up. */
  isReady(): boolean
  call(...args: readonly string[]): Promise<unknown>
  /** MULTI … EXEC: all commands or none. If it rejects without an answer of the server, the outcome is unknown. */
  transaction(commands: readonly (readonly string[])[]): Promise<void>
  /** A separate connection, for commands that block. */
  another(): Promise<RedisCommands>
  disconnect(): void
}

export function redisCommands(client: RedisClient, where: string): RedisCommands {
  if (isNodeRedis(client)) return fromNodeRedis(client)
  if (isIoRedis(client)) return fromIoRedis(client)
  throw invalid(`${where} needs a client of ioredis or of redis`)
}

function isNodeRedis(client: Partial<RedisClient>): client is NodeRedisClient {
  return typeof client === 'object' && client !== null && 'isReady' in client && 'sendCommand' in client
}

function isIoRedis(client: Partial<RedisClient>): client is IoRedisClient {
  return typeof client === 'object' && client !== null && 'status' in client && 'call' in client
}

function fromIoRedis(client: IoRedisClient): RedisCommands {
  const answered = listening(() => {
    if (client.status === 'ready') client.disconnect(true)
  })
  return {
    isReady: () => client.status === 'ready',
    call: (command = '', ...args) => answered(client.call(command, args)),
    async transaction(commands) {
      const results = await answered(client.multi(commands.map((command) => ['call', ...command])).exec())
      for (const [error] of results ?? [[new Error('the transaction was discarded')]]) if (error) throw error
    },
    async another() {
      const copy = client.duplicate()
      copy.on('error', () => {})
      const commands = fromIoRedis(copy)
      await commands.call('PING').catch((error: unknown) => {
        // Otherwise a client that nobody uses would connect again and again.
        copy.disconnect()
        throw error
      })
      return commands
    },
    disconnect: () => client.disconnect(),
  }
}

function fromNodeRedis(client: NodeRedisClient): RedisCommands {
  const answered = listening(() => {
    if (!client.isReady) return
    client.destroy()
    client.connect().catch(() => {})
  })
  return {
    isReady: () => client.isReady,
    call: (...args) => answered(client.sendCommand([...args])),
    async transaction(commands) {
      const multi = client.multi()
      for (const command of commands) multi.addCommand([...command])
      await answered(multi.exec())
    },
    async another() {
      const copy = client.duplicate()
      copy.on('error', () => {})
      const late = (): Error => new Error(`no connection to Redis within ${BROKER_WITHIN_MS} ms`)
      await inTime(copy.connect(), BROKER_WITHIN_MS, late).catch((error: unknown) => {
        copy.destroy()
        throw error
      })
      return fromNodeRedis(copy)
    },
    disconnect: () => client.destroy(),
  }
}

/**
 * Every command ends. With `autoResendUnfulfilledCommands: false`, ioredis never answers commands of a broken connection.
 * If nothing was heard since the command was sent, a firewall may have dropped the connection. A client that believes
 * itself to be connected would not notice, so the connection is replaced.
 */
function listening(replace: () => void): <T>(reply: Promise<T>) => Promise<T> {
  let heard = 0
  const hear = (): void => void heard++
  return (reply) => {
    const before = heard
    reply.then(hear, hear)
    return inTime(reply, BROKER_WITHIN_MS, () => {
      if (heard === before) {
        hear()
        replace()
      }
      return new Error(`no answer from Redis within ${BROKER_WITHIN_MS} ms`)
    })
  }
}

/** A map, which RESP2 sends as a flat list, and RESP3 as a map or an object. */
export function pairsOf(reply: unknown): ReadonlyMap<string, unknown> {
  if (reply instanceof Map) return new Map([...reply].map(([name, value]) => [String(name), value as unknown]))
  if (!Array.isArray(reply)) return new Map(Object.entries((reply ?? {}) as Record<string, unknown>))
  const pairs = new Map<string, unknown>()
  for (let i = 0; i + 1 < reply.length; i += 2) pairs.set(String(reply[i]), reply[i + 1])
  return pairs
}
