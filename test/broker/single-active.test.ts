import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Delivery, PulledSource, Subscription } from '../../src/source/source.ts'
import { natsSource } from '../../src/broker/nats/source.ts'
import { redisSource } from '../../src/broker/redis/source.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { brokerNamed, type BrokerPlace } from './support/broker.ts'
import { describeServers } from './support/describe-broker.ts'

const KEPT_MS = 1_000
const { signal } = new AbortController()
const numbers = (deliveries: readonly Delivery[]): unknown[] =>
  deliveries.map(({ event }) => (event as { data: { n: number } }).data.n)

async function take(from: Subscription, count: number, waitMs = 5_000): Promise<Delivery[]> {
  const taken: Delivery[] = []
  for (const until = Date.now() + waitMs; taken.length < count && Date.now() < until;) {
    taken.push(...(await from.receive({ max: count - taken.length, waitMs: 200, signal })))
  }
  return taken
}

interface Target {
  readonly source: PulledSource<unknown>
  /** Somebody else has the turn from now on. */
  usurp(): Promise<void>
  /** What says whose turn it is, is gone. */
  forget(): Promise<unknown>
}

function cases(name: 'nats' | 'redis', url: () => string, target: (place: string) => Promise<Target>): void {
  let there: BrokerPlace
  const place = `single_${Math.random().toString(36).slice(2)}`
  const stored = new Map<string, string>()
  const revoked: string[] = []
  let of: Target
  beforeAll(async () => {
    there = await (await brokerNamed(name)).open({ url: url(), place, make: true, inOrder: true })
    of = await target(place)
  })
  afterAll(async () => {
    await there.remove()
    await there.close()
  })
  const open = async (): Promise<Subscription> => {
    const positions = { read: async () => stored }
    const subscription = await of.source.open({
      consumer: 'one',
      signal,
      prefetch: 10,
      positions,
      warn: () => {},
      advise: () => {},
    })
    subscription.onRevoked?.((partitions) => void revoked.push(...partitions))
    return subscription
  }
  const send = async (from: number, to: number): Promise<void> => {
    const events = Array.from({ length: to - from + 1 }, (_, i) => eventFor('a', from + i))
    await there.sink().send(events, { signal })
  }

  it('one reads in order, the others stand by; the next goes on where the database says', async () => {
    expect(of.source.features).toMatchObject({ orders: true, positions: true })
    await send(1, 6)
    const [one, two] = [await open(), await open()]
    const taken = await take(one, 6)
    expect(numbers(taken)).toEqual([1, 2, 3, 4, 5, 6])
    expect(await take(two, 1, 1_500)).toEqual([])
    // What is given back comes again from here.
    await one.giveBack(taken.slice(4), { delayMs: 20 })
    expect(numbers(await take(one, 2))).toEqual([5, 6])
    const { partition, next } = taken[1]?.position ?? { partition: '', next: '' }
    stored.set(partition, next)
    await one.close()
    const rest = await take(two, 4)
    expect(numbers(rest)).toEqual([3, 4, 5, 6])
    expect(rest.every(({ redelivered }) => redelivered)).toBe(true)
    stored.set(partition, rest[3]?.position?.next ?? '')
    await send(7, 8)
    expect(numbers(await take(two, 2))).toEqual([7, 8])
    await two.close()
  })

  it('whoever loses its turn is told, stops reading, and goes on when it has it again', async () => {
    const one = await open()
    expect(numbers(await take(one, 2))).toEqual([7, 8])
    revoked.length = 0
    await of.usurp()
    const deadline = Date.now() + 5_000
    while (revoked.length === 0 && Date.now() < deadline) await take(one, 1, 100)
    expect(revoked).toEqual([place])
    expect(numbers(await take(one, 2, 10_000))).toEqual([7, 8])
    await one.close()
  })

  it('goes on when nobody knows any more whose turn it is', async () => {
    const one = await open()
    expect(numbers(await take(one, 2))).toEqual([7, 8])
    await of.forget()
    await new Promise((resolve) => setTimeout(resolve, KEPT_MS))
    await send(9, 9)
    const seen: unknown[] = []
    for (const until = Date.now() + 15_000; !seen.includes(9) && Date.now() < until;) {
      seen.push(...numbers(await take(one, 1, 500).catch(() => [])))
    }
    expect(seen).toContain(9)
    await one.close()
  })
}

describeServers('one of several consumers of NATS reads', ['nats'], ({ nats }) => {
  const close: (() => Promise<unknown>)[] = []
  afterAll(async () => {
    for (const end of close) await end()
  })
  cases(
    'nats',
    () => nats,
    async (stream) => {
      const connection = await connect({ servers: nats })
      const manager = await jetstreamManager(connection)
      const turn = `${stream}_one_turn`
      close.push(async () => {
        await manager.streams.delete(turn)
        await connection.close()
      })
      const js = jetstream(connection)
      const source = natsSource(js, { stream, events: {}, ackWait: `${KEPT_MS}ms`, singleActive: true })
      const forget = (): Promise<unknown> => manager.streams.delete(turn)
      return { source, usurp: async () => void (await js.publish(turn, '')), forget }
    },
  )
})

describeServers('one of several consumers of Redis reads', ['redis'], ({ redis }) => {
  const close: (() => void)[] = []
  afterAll(() => close.forEach((end) => end()))
  cases(
    'redis',
    () => redis,
    async (stream) => {
      const client = new Redis(redis)
      close.push(() => client.disconnect())
      const source = redisSource(client, { stream, events: {}, idle: `${KEPT_MS}ms`, singleActive: true })
      const usurp = async () => void (await client.set(`${stream}:one:turn`, 'another', 'PX', KEPT_MS))
      return { source, usurp, forget: () => client.del(`${stream}:one:turn`) }
    },
  )
})
