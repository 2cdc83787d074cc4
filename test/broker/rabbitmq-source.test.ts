import { Connection } from 'rabbitmq-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rabbitmqSink } from '../../src/broker/rabbitmq/sink.ts'
import { rabbitmqSource, type RabbitmqSourceOptions } from '../../src/broker/rabbitmq/source.ts'
import type { Delivery, Subscription } from '../../src/source/source.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { describeLate } from './support/describe-late.ts'
import { survivesKills } from './support/describe-consumer-chaos.ts'
import { proxyOf, type Proxy } from './support/proxy.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

const { signal } = new AbortController()
/** A delivery is held as long as the connection lives, half an hour at most; and a queue is one consumer's. */
const OTHERWISE = new Set([
  'brings to another one what its reader holds too long, unless it is still at work',
  'gives each event to one of those who share a name, and to everybody else',
])

await describeLate('what a consumer relies on, RabbitMQ', { server: 'rabbitmq' }, (url) => {
  let proxy: Proxy
  beforeAll(async () => {
    proxy = await proxyOf(url)
  })
  afterAll(() => proxy.close())
  const open = () => sourceTarget('rabbitmq', { ...proxy, stop: () => proxy.close() })
  for (const { name, takesServerAway, run } of sourceCases(open).filter((one) => !OTHERWISE.has(one.name))) {
    it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
  }
})

await describeLate('a RabbitMQ source', { server: 'rabbitmq' }, (url) => {
  let connection: Connection
  let places = 0
  const fresh = (): string => `source_${process.pid}_${places++}`
  beforeAll(async () => {
    connection = new Connection(url)
    connection.on('error', () => {})
    await connection.onConnect(10_000)
  })
  afterAll(() => connection.close())

  async function opened(options: Omit<RabbitmqSourceOptions<{}>, 'events'>, prefetch = 50) {
    const warnings: string[] = []
    const subscription = await rabbitmqSource(connection, { ...options, events: {} }).open({
      consumer: 'reader',
      signal,
      prefetch,
      positions: { read: async () => new Map() },
      warn: () => {},
      advise: (advice) => void warnings.push(advice),
    })
    return { subscription, warnings: warnings.join('\n') }
  }
  async function send(queue: string, count: number, more: object = {}): Promise<void> {
    const sink = rabbitmqSink(connection, { queue })
    const events = Array.from({ length: count }, (_, i) => eventFor('a', i + 1, { n: i + 1, ...more }))
    await sink.send(events, { signal })
    await sink.close?.()
  }
  async function take(subscription: Subscription, count: number, waitMs = 3_000): Promise<Delivery[]> {
    const taken: Delivery[] = []
    for (const until = Date.now() + waitMs; taken.length < count && Date.now() < until;) {
      taken.push(...(await subscription.receive({ max: count - taken.length, waitMs: 200, signal })))
    }
    return taken
  }
  const numbers = (deliveries: readonly Delivery[]): unknown[] =>
    deliveries.map(({ event }) => (event as { data: { n: number } }).data.n)

  it('names a delivery limit without a way out, and a queue that does not count', async () => {
    const [limited, classic] = [fresh(), fresh()]
    const args = { 'x-queue-type': 'quorum' as const, 'x-delivery-limit': 3 }
    await connection.queueDeclare({ queue: limited, durable: true, arguments: args })
    await connection.queueDeclare({ queue: classic, durable: true })
    const one = await opened({ queue: limited })
    expect(one.warnings).toMatch(/x-delivery-limit 3 and no dead-letter exchange/)
    const two = await opened({ queue: classic })
    expect(two.warnings).toMatch(/does not count deliveries/)
    await Promise.all([one.subscription.close(), two.subscription.close()])
  })

  it('giving back does not use up the delivery limit', async () => {
    const queue = fresh()
    const args = { 'x-queue-type': 'quorum' as const, 'x-delivery-limit': 2 }
    await connection.queueDeclare({ queue, durable: true, arguments: args })
    const { subscription } = await opened({ queue })
    await send(queue, 1)
    for (let delivered = 1; delivered <= 6; delivered++) {
      const [delivery] = await take(subscription, 1)
      expect([delivery?.delivered, delivery?.redelivered]).toEqual([delivered, delivered > 1])
      await subscription.giveBack([delivery as Delivery], { delayMs: 1 })
    }
    await subscription.ack(await take(subscription, 1))
    expect(await take(subscription, 1, 300)).toEqual([])
    await subscription.close()
  })

  it('what is given back goes behind what waits', async () => {
    const queue = fresh()
    const { subscription } = await opened({ queue })
    await send(queue, 3)
    const [first] = await take(subscription, 1)
    await subscription.giveBack([first as Delivery], { delayMs: 1 })
    const rest = await take(subscription, 3)
    expect(numbers(rest)).toEqual([2, 3, 1])
    await subscription.ack(rest)
    await subscription.close()
  })

  it('has no more than about 32 MiB of large events in hand, and as many small ones as it may', async () => {
    const queue = fresh()
    const { subscription } = await opened({ queue }, 1_000)
    const text = 'x'.repeat(500_000)
    const bytesOf = (deliveries: readonly Delivery[]): number =>
      deliveries.reduce((sum, { bytes = 0 }) => sum + bytes, 0)
    await send(queue, 1_000)
    const small = await take(subscription, 1_000)
    expect(small).toHaveLength(1_000)
    await subscription.ack(small)
    // It learns how large they are while they come.
    for (let round = 0; round < 3; round++) await send(queue, 50, { text })
    const first = await take(subscription, 150, 5_000)
    await subscription.ack(first)
    const rest = await take(subscription, 150 - first.length, 5_000)
    await subscription.ack(rest)
    for (let round = 0; round < 3; round++) await send(queue, 50, { text })
    const large = await take(subscription, 150, 3_000)
    expect(large.length).toBeGreaterThan(16)
    expect(bytesOf(large)).toBeLessThan(40 * 1024 * 1024)
    await subscription.close()
    const anew = await opened({ queue }, 1_000)
    expect(bytesOf(await take(anew.subscription, 150, 3_000))).toBeLessThan(40 * 1024 * 1024)
    await anew.subscription.close()
  }, 60_000)

  describe('with a single active consumer', () => {
    it('one reads, in order, also what is given back; the other takes over', async () => {
      const queue = fresh()
      const [one, two] = [await opened({ queue, singleActive: true }), await opened({ queue, singleActive: true })]
      await send(queue, 4)
      const deliveries = await take(one.subscription, 4)
      expect(numbers(deliveries)).toEqual([1, 2, 3, 4])
      expect(await take(two.subscription, 1, 300)).toEqual([])
      await one.subscription.giveBack(deliveries.slice(0, 2), { delayMs: 20 })
      const again = await take(one.subscription, 2)
      expect(numbers(again)).toEqual([1, 2])
      expect(again.every(({ redelivered }) => redelivered)).toBe(true)
      await one.subscription.ack(again.slice(0, 1))
      await one.subscription.close()
      const taken = await take(two.subscription, 3)
      expect(numbers(taken)).toEqual([2, 3, 4])
      await two.subscription.ack(taken)
      await two.subscription.close()
    })

    it('is not believed to be one where the queue is not', async () => {
      const queue = fresh()
      const plain = await opened({ queue })
      await expect(opened({ queue, singleActive: true })).rejects.toThrow(/ONCE_OPTION_INVALID.*single-active/)
      await plain.subscription.close()
    })
  })

  it('needs a queue and a catalogue', async () => {
    for (const wrong of [{}, { queue: 'a' }, { queue: '', events: {} }, { queue: 'a', events: {}, prefetch: 1 }]) {
      expect(() => rabbitmqSource(connection, wrong as never)).toThrow(/ONCE_OPTION_INVALID/)
    }
    await expect(opened({ queue: fresh(), declare: false })).rejects.toThrow(/ONCE_OPTION_INVALID.*no queue/)
  })
})

await describeLate('consumers of RabbitMQ killed at random', { server: 'rabbitmq', postgres: true }, (url) => {
  survivesKills('rabbitmq', url, 'shared')
})
