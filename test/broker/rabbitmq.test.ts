import { Connection } from 'rabbitmq-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rabbitmqSink, type RabbitmqSinkOptions } from '../../src/broker/rabbitmq/sink.ts'
import type { Sink, Verdict } from '../../src/sink/sink.ts'
import { eventFor, sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeLate } from './support/describe-late.ts'
import { brokerOutage } from './support/outage.ts'
import { proxyOf, type Proxy } from './support/proxy.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

const signal = new AbortController().signal
const fates = (verdicts: readonly Verdict[]): unknown[] =>
  verdicts.map((verdict) => (verdict.kind === 'sent' ? 'sent' : { retryable: verdict.retryable }))

await describeLate('RabbitMQ', { server: 'rabbitmq' }, (url) => {
  let proxy: Proxy
  beforeAll(async () => {
    proxy = await proxyOf(url)
  })
  afterAll(() => proxy.close())

  describe('the sink contract', () => {
    const open = () => sinkTarget('rabbitmq', { ...proxy, stop: () => proxy.close() })
    for (const { name, run } of sinkContract(open)) {
      it(name, () => expect(run()).resolves.toBeUndefined())
    }
  })

  describe('a sink', () => {
    let connection: Connection
    let places = 0
    const fresh = (): string => `sink_${process.pid}_${places++}`
    beforeAll(async () => {
      connection = new Connection(url)
      connection.on('error', () => {})
      await connection.onConnect(10_000)
    })
    const sinks: Sink[] = []
    afterAll(async () => {
      // A connection closes when its last channel has.
      await Promise.all(sinks.map(async (sink) => sink.close?.()))
      await connection.close()
    })

    async function opened(options: RabbitmqSinkOptions) {
      const sink = rabbitmqSink(connection, options)
      sinks.push(sink)
      return { sink, warnings: (await sink.open?.()) ?? [] }
    }
    const names = (warnings: readonly string[]): string => warnings.join('\n')

    it('makes a quorum queue, whose confirms prove that an event is on disk', async () => {
      const queue = fresh()
      const { sink, warnings } = await opened({ queue })
      expect(sink.proves).toBe('flushed')
      expect(warnings).toEqual([expect.stringContaining('clustered: true')])
      const again = await opened({ queue, clustered: true })
      expect(again.warnings).toEqual([])
      expect(again.sink.proves).toBe('replicated')
      await expect(connection.queueDeclare({ queue, durable: true })).rejects.toThrow(/quorum/)
    })

    it('names what weakens a queue that is already there', async () => {
      const [classic, transient, full] = [fresh(), fresh(), fresh()]
      await connection.queueDeclare({ queue: classic, durable: true })
      await connection.queueDeclare({ queue: transient, durable: false, autoDelete: true })
      const limits = {
        'x-queue-type': 'quorum' as const,
        'x-max-length': 5,
        'x-dead-letter-exchange': 'x',
        'x-message-ttl': 9_000,
      }
      await connection.queueDeclare({ queue: full, durable: true, arguments: limits })
      const one = await opened({ queue: classic })
      expect(names(one.warnings)).toContain(`'${classic}' is a classic queue`)
      expect(one.sink.proves).toBe('accepted')
      const two = await opened({ queue: transient })
      expect(names(two.warnings)).toMatch(/not durable[^]*when its last consumer leaves/)
      const three = await opened({ queue: full, declare: false })
      expect(names(three.warnings)).toMatch(/x-max-length without[^]*x-message-ttl/)
      expect(three.sink.proves).toBe('accepted')
    })

    it('does not make what it was told not to make', async () => {
      for (const options of [{ queue: fresh() }, { exchange: fresh() }]) {
        const sink = rabbitmqSink(connection, { ...options, declare: false })
        await expect(sink.open?.()).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
      }
    })

    it('routes by type through an exchange; what nobody takes is returned, and its successors stay', async () => {
      const [exchange, queue] = [fresh(), fresh()]
      const { sink, warnings } = await opened({ exchange, queues: { [queue]: 'step.*' } })
      expect(names(warnings)).not.toMatch(/cannot be listed from here: name/)
      const stray = { ...eventFor('a', 1), type: 'nobody.wants' }
      const events = [stray, eventFor('a', 2), eventFor('b', 1), { ...eventFor('c', 1), type: 'nobody.wants' }]
      const verdicts = await sink.send(events, { signal })
      expect(fates(verdicts)).toEqual([{ retryable: true }, { retryable: true }, 'sent', { retryable: true }])
      expect(verdicts[0]).toMatchObject({ error: { message: expect.stringContaining('NO_ROUTE') as string } })
      const kept = await connection.basicGet({ queue, noAck: true })
      expect(kept).toMatchObject({ messageId: eventFor('b', 1).id, durable: true })
      expect(await connection.basicGet(queue)).toBeUndefined()
      const unnamed = await opened({ exchange })
      expect(names(unnamed.warnings)).toMatch(/cannot be listed from here: name them/)
    })

    it('an event that is too large fails for ever, and alone', async () => {
      const queue = fresh()
      const { sink } = await opened({ queue })
      const large = eventFor('large', 1, { text: 'x'.repeat(1_100_000) })
      const events = [eventFor('p', 1), large, eventFor('q', 1), eventFor('large', 2), eventFor('p', 2)]
      const forEver = { retryable: false }
      expect(fates(await sink.send(events, { signal }))).toEqual(['sent', forEver, 'sent', forEver, 'sent'])
      expect(fates(await sink.send([large], { signal }))).toEqual([forEver])
    })

    it('a queue that is full is the server’s trouble, not the events’', async () => {
      const queue = fresh()
      const args = { 'x-queue-type': 'quorum' as const, 'x-max-length': 1, 'x-overflow': 'reject-publish' as const }
      await connection.queueDeclare({ queue, durable: true, arguments: args })
      const { sink } = await opened({ queue })
      // The limit is kept with some delay: a few go over it.
      const send = () => sink.send([eventFor('a', 1), eventFor('b', 1)], { signal })
      await expect(
        Promise.resolve().then(async () => {
          for (let i = 0; i < 50; i++) await send()
        }),
      ).rejects.toThrow(/rejected/)
      await connection.queuePurge(queue)
      await expect(send()).resolves.toHaveLength(2)
    })

    it('needs a queue or an exchange', () => {
      const make = (options: unknown) => () => rabbitmqSink(connection, options as RabbitmqSinkOptions)
      for (const wrong of [
        {},
        { queue: '' },
        { queue: 'a', exchange: 'b' },
        { queue: 'a', routingKey: 'b' },
        { queu: 'a' },
      ]) {
        expect(make(wrong)).toThrow(/ONCE_OPTION_INVALID/)
      }
      expect(() => rabbitmqSink({} as Connection, { queue: 'a' })).toThrow(/ONCE_OPTION_INVALID/)
    })
  })
})

await describeLate('relays to RabbitMQ', { server: 'rabbitmq', postgres: true }, (url) => {
  it('killed at random: nothing lost, nothing out of order', { timeout: 180_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'rabbitmq', url, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
    } finally {
      await database.drop()
    }
  })

  it('a server that is away for a while gets everything in the end', { timeout: 60_000 }, async () => {
    const database = await freshDatabase()
    const server = await proxyOf(url)
    try {
      const params = { broker: 'rabbitmq', server, database: database.url, events: 1_500, outageMs: 3_000 }
      const result = await brokerOutage({ ...params, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
      expect(result.attempts).toBeLessThan(20)
    } finally {
      await server.close()
      await database.drop()
    }
  })
})
