import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { RunningServer } from '../../scripts/servers/index.ts'
import { startRedisNode } from '../../scripts/servers/redis.ts'
import type { RedisClient } from '../../src/broker/redis/client.ts'
import { redisSink } from '../../src/broker/redis/sink.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { until } from '../redis/support/cluster-control.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'

const server = inject('servers').redis
/** A server from elsewhere cannot be started twice. */
const isOurs = 'url' in server && server.from === 'debian'

/** The address of a primary: after a failover it leads to another server. */
class Address {
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((from) => {
    const to = connect(this.#port, '127.0.0.1')
    from.pipe(to).pipe(from)
    for (const socket of [from, to]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        from.destroy()
        to.destroy()
      })
    }
  })
  #port: number

  constructor(to: RunningServer) {
    this.#port = portOf(to)
  }

  async open(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  leadTo(to: RunningServer): void {
    this.#port = portOf(to)
    for (const socket of this.#sockets) socket.destroy()
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

function portOf({ url }: RunningServer): number {
  return Number(new URL(url).port)
}

describe.skipIf(!isOurs)('a failover between EXEC and WAIT', () => {
  let primary: RunningServer
  let promoted: RunningServer
  let replica: RunningServer
  let client: Redis
  beforeAll(async () => {
    ;[primary, promoted] = await Promise.all([startRedisNode([]), startRedisNode(['--repl-diskless-sync-delay', '0'])])
    replica = await startRedisNode(['--replicaof', '127.0.0.1', String(portOf(promoted))])
    client = new Redis(promoted.url)
    await until(async () => /state=online/.test(await client.info('replication')))
  }, 60_000)
  afterAll(async () => {
    client?.disconnect()
    await Promise.all([primary, promoted, replica].map((each) => each.stop()))
  })

  it.each(REDIS_CLIENTS)('is an error: the promoted server never had the event, %s', async (of) => {
    const address = new Address(primary)
    const open = await openRedis(of, 'redis', await address.open())
    const stream = `wait-${of}`
    const sink = redisSink(open.client as unknown as RedisClient, { stream, waitFor: { replicas: 1, timeout: '5s' } })
    await sink.open?.()
    const sent = sink.send([eventFor('a', 1)], { signal: new AbortController().signal }).then(
      () => 'sent',
      () => 'failed',
    )
    const old = new Redis(primary.url)
    await expect.poll(() => old.xlen(stream)).toBe(1)
    address.leadTo(promoted)
    expect([await sent, await client.xlen(stream)]).toEqual(['failed', 0])
    old.disconnect()
    await open.close()
    address.close()
  })
})
