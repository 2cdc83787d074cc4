import { BROKER_WITHIN_MS } from '../../limits.ts'
import { invalid } from '../../options.ts'
import { inTime } from '../../platform/in-time.ts'

/** The part of a client of ioredis (`Redis` or `Cluster`) that sink and source use. */
export interface IoRedisClient {
  readonly status: string
  call(command: string, args: string[]): Promise<unknown>
  multi(commands: string[][]): { exec(): Promise<[error: Error | null, result: unknown][] | null> }
  pipeline(commands: string[][]): { exec(): Promise<[error: Error | null, result: unknown][] | null> }
  duplicate(): IoRedisClient
  on(event: 'error', listener: (error: Error) => void): unknown
  disconnect(reconnect?: boolean): void
}

/** The part of a client of node-redis (`createClient` or `createCluster` of the package `redis`) that sink and source use. */
export interface NodeRedisClient {
  readonly isReady: boolean
  // oxlint-disable-next-line no-explicit-any -- a cluster takes the key before the command
  sendCommand(...params: any[]): Promise<unknown>
  multi(): {
    // oxlint-disable-next-line no-explicit-any -- as above
    addCommand(...params: any[]): unknown
    exec(): Promise<unknown>
    execAsPipeline(): Promise<readonly unknown[]>
  }
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
  destroy(): void
}

export type RedisClient = IoRedisClient | NodeRedisClient

/** The same few methods over either client. In a cluster, every command goes to the server that holds its key. */
export interface RedisCommands {
  /** False: a command would wait in the client's own queue, and be sent after its caller has given up. */
  isReady(): boolean
  call(...args: readonly string[]): Promise<unknown>
  /**
   * MULTI … EXEC: all commands or none. If it rejects without an answer of the server, the outcome is unknown. `then`
   * follows on the same connection, and never on another one: WAIT counts the writes of its connection. Resolves with
   * its reply.
   */
  transaction(commands: readonly (readonly string[])[], then?: readonly string[]): Promise<unknown>
  /** A separate connection, for commands that block. */
  another(): Promise<RedisCommands>
  disconnect(): void
}

/** `stream`: the key of all commands, except scripts, which name their own. */
export function redisCommands(client: RedisClient, where: string, stream: string): RedisCommands {
  if (isNodeRedis(client)) return fromNodeRedis(client, stream)
  if (isIoRedis(client)) return fromIoRedis(client, stream)
  throw invalid(`${where} needs a client of ioredis or of redis`)
}

function isNodeRedis(client: Partial<RedisClient>): client is NodeRedisClient {
  return typeof client === 'object' && client !== null && 'isReady' in client && 'sendCommand' in client
}

function isIoRedis(client: Partial<RedisClient>): client is IoRedisClient {
  return typeof client === 'object' && client !== null && 'status' in client && 'call' in client
}

/** Commands without a key. The client of a cluster would send them to any of its servers. */
const KEYLESS = new Set(['INFO', 'CONFIG', 'WAIT'])

/** The id of a connection is useless in a cluster: a later read may use a connection to another server. */
function checkCluster(command: string | undefined): void {
  if (command === 'CLIENT') throw new Error('a cluster has no single connection')
}

function fromIoRedis(client: IoRedisClient, stream: string): RedisCommands {
  const isCluster = 'nodes' in client
  const answered = listening(() => {
    if (client.status === 'ready') client.disconnect(true)
  })
  const find = (): Promise<unknown> => answered(client.call('EXISTS', [stream]))
  return {
    isReady: () => client.status === 'ready',
    async call(command = '', ...args) {
      if (isCluster) checkCluster(command)
      if (!isCluster || !KEYLESS.has(command)) return answered(client.call(command, args))
      // All commands of a pipeline go to the server of its key.
      const pair = [['call', 'EXISTS', stream], ['call', command, ...args]] // prettier-ignore
      return redirected(async () => resultsOf(await answered(client.pipeline(pair).exec()))[1], find)
    },
    async transaction(commands, then) {
      const calls = commands.map((command) => ['call', ...command])
      if (!then) return void resultsOf(await answered(client.multi(calls).exec()))
      // The client sends what is left of a broken pipeline to no other connection.
      const all = [['multi'], ...calls, ['exec'], ['call', ...then]]
      return redirected(async () => thenOf(resultsOf(await answered(client.pipeline(all).exec()))), find)
    },
    async another() {
      const copy = client.duplicate()
      copy.on('error', () => {})
      const commands = fromIoRedis(copy, stream)
      await commands.call('EXISTS', stream).catch((error: unknown) => {
        // Otherwise a client that nobody uses would connect again and again.
        copy.disconnect()
        throw error
      })
      return commands
    },
    disconnect: () => client.disconnect(),
  }
}

function resultsOf(results: [error: Error | null, result: unknown][] | null): unknown[] {
  if (!results) throw new Error('the transaction was discarded')
  return results.map(([error, result]) => {
    if (error) throw error
    return result
  })
}

/**
 * A cluster has refused a pipeline, and nothing of it was written. Clients follow a redirection of a single command
 * only. By that they learn where the stream is now.
 */
async function redirected<T>(send: () => Promise<T>, find: () => Promise<unknown>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    if (!(error instanceof Error) || !/^(MOVED|ASK)\b/.test(error.message)) throw error
    await find()
    return send()
  }
}

/** The last reply, after a transaction that ran. */
function thenOf(replies: readonly unknown[]): unknown {
  const [ran, last] = replies.slice(-2)
  if (!Array.isArray(ran)) throw new Error('the transaction was discarded')
  for (const reply of ran as readonly unknown[]) if (reply instanceof Error) throw reply
  return last
}

function fromNodeRedis(client: NodeRedisClient, stream: string): RedisCommands {
  const isCluster = 'masters' in client
  // EVAL, the script, the number of keys, the key. `false`: not to a replica.
  const place = (args: readonly string[]): unknown[] =>
    isCluster ? [args[0] === 'EVAL' ? args[3] : stream, false] : []
  const answered = listening(() => {
    if (!client.isReady) return
    client.destroy()
    client.connect().catch(() => {})
  })
  const find = (): Promise<unknown> => answered(client.sendCommand(...place([]), ['EXISTS', stream]))
  return {
    isReady: () => client.isReady,
    async call(...args) {
      if (isCluster) checkCluster(args[0])
      return answered(client.sendCommand(...place(args), [...args]))
    },
    async transaction(commands, then) {
      const multiOf = (all: readonly (readonly string[])[]): ReturnType<typeof client.multi> => {
        const multi = client.multi()
        for (const command of all) multi.addCommand(...place(command), [...command])
        return multi
      }
      if (!then) return void (await answered(multiOf(commands).exec()))
      const all = [['MULTI'], ...commands, ['EXEC'], then]
      return redirected(async () => thenOf(await answered(multiOf(all).execAsPipeline())), find)
    },
    async another() {
      const copy = client.duplicate()
      copy.on('error', () => {})
      const late = (): Error => new Error(`no connection to Redis within ${BROKER_WITHIN_MS} ms`)
      await inTime(copy.connect(), BROKER_WITHIN_MS, late).catch((error: unknown) => {
        copy.destroy()
        throw error
      })
      return fromNodeRedis(copy, stream)
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
