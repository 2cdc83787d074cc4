import { Redis } from 'ioredis'
import type { RunningServer } from '../../../scripts/servers/index.ts'
import { startRedisNode } from '../../../scripts/servers/redis.ts'
import { REDIS_CLIENTS, type RedisClientKind } from '../../support/redis-clients.ts'
import { until } from './cluster-control.ts'
import { Payer } from './payer.ts'

/** A primary and a replica whose link can be cut before the primary is killed and the replica promoted. */
export class Pair {
  readonly primary: RunningServer
  readonly replica: RunningServer
  readonly #clients: readonly [primary: Redis, replica: Redis]
  #stopped = 0

  private constructor(primary: RunningServer, replica: RunningServer) {
    this.primary = primary
    this.replica = replica
    this.#clients = [primary, replica].map(({ url }) => new Redis(url).on('error', () => {})) as [Redis, Redis]
  }

  static async start(): Promise<Pair> {
    const primary = await startRedisNode([])
    const { hostname, port } = new URL(primary.url)
    const replica = await startRedisNode(['--replicaof', hostname, port, '--repl-diskless-sync-delay', '0'])
    const pair = new Pair(primary, replica)
    await until(async () => /state=online/.test(await pair.#clients[0].info('replication')))
    return pair
  }

  /** The replica is stopped, and its connection is closed, so that no byte waits for it in a socket. */
  async cut(): Promise<void> {
    const [primary, replica] = this.#clients
    this.#stopped = Number(/process_id:(\d+)/.exec(await replica.info('server'))?.[1])
    process.kill(this.#stopped, 'SIGSTOP')
    await primary.call('CLIENT', 'KILL', 'TYPE', 'replica')
  }

  /** The primary dies, and the replica is promoted. */
  async failOver(): Promise<void> {
    await this.primary.halt?.('SIGKILL')
    this.mend()
    await this.#clients[1].call('REPLICAOF', 'NO', 'ONE')
  }

  mend(): void {
    if (this.#stopped > 0) process.kill(this.#stopped, 'SIGCONT')
    this.#stopped = 0
  }

  async stop(): Promise<void> {
    this.mend()
    for (const client of this.#clients) client.disconnect()
    await Promise.all([this.primary.stop(), this.replica.stop()])
  }
}

export interface CutResult {
  readonly asked: number
  /** Callers that got 503 and whose handler did not run. */
  readonly refused: number
  /** Effects before the failover. */
  readonly before: number
  /** Operations with more than one effect after it. */
  readonly twice: number
}

/** Calls during a cut, then a failover, then a retry of each. `replicas` decides what the calls during the cut get. */
export async function cutLink(calls: number, replicas: number): Promise<CutResult> {
  const pair = await Pair.start()
  const effects = new Map<string, Set<string>>()
  const operations = Array.from({ length: calls }, (_, i) => `cut ${process.pid}-${Date.now()} ${i}`)
  const open = (client: RedisClientKind, url: string, asked: number): Promise<Payer> =>
    Payer.open({ client, server: 'redis', url, replicas: asked }, effects)
  const payers = await Promise.all(
    [...REDIS_CLIENTS, ...REDIS_CLIENTS].map((of) => open(of, pair.primary.url, replicas)),
  )
  const later = await open('ioredis', pair.replica.url, 0)
  try {
    // The policy is read by the first claim.
    for (const [i, payer] of payers.entries()) await payer.retried(`${operations[0]} ${i}`)
    effects.clear()
    await pair.cut()
    let refused = 0
    await Promise.all(
      payers.map(async (payer, nth) => {
        for (let i = nth; i < calls; i += payers.length) {
          const operation = operations[i] ?? ''
          const reply = await payer.pay(operation)
          if ('code' in reply && reply.code === 'ONCE_STORE_UNAVAILABLE' && !effects.has(operation)) refused++
        }
      }),
    )
    const before = effects.size
    await pair.failOver()
    for (const operation of operations) await later.retried(operation)
    const twice = operations.filter((operation) => (effects.get(operation)?.size ?? 0) > 1).length
    return { asked: calls, refused, before, twice }
  } finally {
    pair.mend()
    await Promise.all([...payers, later].map((payer) => payer.close()))
    await pair.stop()
  }
}
