import { invalid } from '../options.ts'
import { systemClock } from './clock.ts'
import { inTime } from './in-time.ts'

/** A client of ioredis: of one server, behind Sentinel, or of a cluster. */
export interface IoRedisKeyed {
  readonly status: string
  call(command: string, ...args: string[]): Promise<unknown>
  pipeline(commands: string[][]): { exec(): Promise<[error: Error | null, result: unknown][] | null> }
}

/** A client of node-redis (the package `redis`): `createClient`, `createClientPool`, `createSentinel` or `createCluster`. */
export interface NodeRedisKeyed {
  readonly isOpen: boolean
  // oxlint-disable-next-line no-explicit-any -- each kind of client has its own parameters before the command
  sendCommand(...params: any[]): Promise<unknown>
  // oxlint-disable-next-line no-explicit-any -- as above
  multi(...params: any[]): unknown
}

export type KeyedRedisClient = IoRedisKeyed | NodeRedisKeyed

/** Commands about one key each. The client finds the server that holds the key. */
export interface KeyedRedis {
  call(key: string, command: readonly string[]): Promise<unknown>
  /**
   * Sends commands in order on one connection, without a transaction. Rejects with the first error. If the connection
   * breaks in between, the rest is not sent on another connection.
   */
  together(key: string, commands: readonly (readonly string[])[]): Promise<readonly unknown[]>
  /** Sends a command to every server that the client knows, replicas too. Null: this server did not answer soon. */
  everywhere(command: readonly string[]): Promise<readonly unknown[]>
  /** To how many connections the client gives commands, at least 1. */
  connections(): number
}

interface IoRedisNodes {
  nodes(role: 'all' | 'master'): Pick<IoRedisKeyed, 'call'>[]
}

interface NodeRedisNodes {
  readonly masters: readonly object[]
  readonly replicas: readonly object[]
  nodeClient(node: object): Promise<NodeRedisKeyed> | NodeRedisKeyed
}

interface Pipelined {
  // oxlint-disable-next-line no-explicit-any -- as above
  addCommand(...params: any[]): unknown
  execAsPipeline(): Promise<readonly unknown[]>
}

type Each = (reply: Promise<unknown>) => Promise<unknown>

/** `withinMs`: a command without an answer in this time is rejected. It may still be sent, and run, later. */
export function keyedRedis(client: KeyedRedisClient, where: string, withinMs: number): KeyedRedis {
  const late = (): Error => new Error(`no answer from Redis within ${withinMs} ms`)
  // One server that hangs must not take the others' time.
  const each: Each = (reply) => inTime(reply, withinMs / 2, late)
  const raw = isIoRedis(client) ? fromIoRedis(client, each) : isNodeRedis(client) ? fromNodeRedis(client, each) : null
  if (!raw) throw invalid(`${where} needs a client of ioredis or of redis`)
  // The same as `inTime`, with fewer promises: it stands around every command.
  const answered = <T>(reply: Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const cancel = systemClock.after(withinMs, () => reject(late()))
      reply.then(
        (answer) => {
          cancel()
          resolve(asText(answer) as T)
        },
        (error: unknown) => {
          cancel()
          reject(error)
        },
      )
    })
  return {
    call: (key, command) => answered(raw.call(key, command)),
    together: (key, commands) => answered(raw.together(key, commands)),
    everywhere: (command) => answered(raw.everywhere(command)),
    connections: () => Math.max(1, raw.connections()),
  }
}

function isIoRedis(client: object | null): client is IoRedisKeyed {
  return typeof client === 'object' && client !== null && 'status' in client && 'call' in client
}

function isNodeRedis(client: object | null): client is NodeRedisKeyed {
  return typeof client === 'object' && client !== null && 'isOpen' in client && 'sendCommand' in client
}

function fromIoRedis(client: IoRedisKeyed, each: Each): KeyedRedis {
  const send = (to: Pick<IoRedisKeyed, 'call'>, command: readonly string[]): Promise<unknown> =>
    to.call(...(command as [string, ...string[]]))
  return {
    call: (_key, command) => send(client, command),
    async together(_key, commands) {
      const results = (await client.pipeline(commands.map((command) => ['call', ...command])).exec()) ?? []
      return results.map(([error, result]) => {
        if (error) throw error
        return result
      })
    },
    everywhere(command) {
      if (!('nodes' in client)) return reached([client], (only) => send(only, command))
      return reached((client as unknown as IoRedisNodes).nodes('all'), (node) => each(send(node, command)))
    },
    connections: () => ('nodes' in client ? (client as unknown as IoRedisNodes).nodes('master').length : 1),
  }
}

function fromNodeRedis(client: NodeRedisKeyed, each: Each): KeyedRedis {
  const isCluster = 'nodeClient' in client
  // Every kind of client has other parameters in front of the command. `false`: not to a replica.
  const before = (key: string): unknown[] => (isCluster ? [key, false] : 'acquire' in client ? [false] : [])
  return {
    call: (key, command) => client.sendCommand(...before(key), [...command]),
    together(key, commands) {
      const pipeline = client.multi() as Pipelined
      for (const command of commands) pipeline.addCommand(...before(key), [...command])
      return pipeline.execAsPipeline()
    },
    everywhere(command) {
      if (!isCluster) return reached([client], (only) => only.sendCommand(...before(''), [...command]))
      const { masters, replicas } = client as unknown as NodeRedisNodes
      const ask = async (node: object): Promise<unknown> => {
        const of = await (client as unknown as NodeRedisNodes).nodeClient(node)
        return of.sendCommand([...command])
      }
      return reached([...masters, ...replicas], (node) => each(ask(node)))
    },
    connections() {
      if (isCluster) return (client as unknown as NodeRedisNodes).masters.length
      return 'totalClients' in client ? Number(client.totalClients) : 1
    },
  }
}

/** Null: no answer. Rejects if there was none at all. */
async function reached<T>(nodes: readonly T[], ask: (node: T) => Promise<unknown>): Promise<readonly unknown[]> {
  const asked = await Promise.allSettled(nodes.map(ask))
  const [first] = asked
  if (first?.status === 'rejected' && asked.every(({ status }) => status === 'rejected')) throw first.reason
  return asked.map((result) => (result.status === 'fulfilled' ? result.value : null))
}

/** A client may be set to give bytes instead of text. */
function asText(reply: unknown): unknown {
  if (typeof reply !== 'object' || reply === null) return reply
  if (reply instanceof Uint8Array) return Buffer.from(reply.buffer, reply.byteOffset, reply.byteLength).toString()
  if (Array.isArray(reply)) return reply.map(asText)
  if (reply instanceof Map) return new Map([...reply].map(([name, value]) => [String(name), asText(value)]))
  return Object.fromEntries(Object.entries(reply).map(([name, value]) => [name, asText(value)]))
}
