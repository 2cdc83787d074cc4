import { Connection } from 'rabbitmq-client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce } from '../../src/index.ts'
import { rabbitmqSink, type RabbitmqSinkOptions } from '../../src/broker/rabbitmq/sink.ts'
import { rabbitmqSource } from '../../src/broker/rabbitmq/source.ts'
import type { Sink } from '../../src/sink/sink.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeLate } from './support/describe-late.ts'
import { BYTES, events, TRACE } from './support/binary-events.ts'
import { until } from '../support/until.ts'

await describeLate('binary mode of RabbitMQ', { server: 'rabbitmq' }, (url) => {
  let connection: Connection
  let places = 0
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

  async function published(options: Partial<RabbitmqSinkOptions>) {
    const queue = `binary_${process.pid}_${places++}`
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, guard: 'off', sweep: false })
    const more = { tenant: 'acme', headers: { shop: 'żółw' }, traceparent: TRACE, tracestate: 'a=1', baggage: 'b=2' }
    await once.run({ scope: 's', key: queue, input: null }, async ({ publish }) => {
      await publish('charge.made', { id: 'a' }, more)
      await publish('note.made', 'a text', more)
      await publish('scan.made', BYTES, more)
    })
    const to = rabbitmqSink(connection, { queue, ...options })
    sinks.push(to)
    expect(await once.relay({ to }).drain()).toBe(3)
    return { once, queue }
  }

  it('attributes are headers, and the body is the data', async () => {
    const { once, queue } = await published({ mode: 'binary' })
    const found = new Map<unknown, { contentType?: string; body: unknown; headers?: Record<string, unknown> }>()
    for (let n = 0; n < 3; n++) {
      const message = await connection.basicGet({ queue, noAck: true })
      if (message) found.set(message.type, message)
    }
    const attributes = { 'cloudEvents:specversion': '1.0', 'cloudEvents:source': 'shop', 'cloudEvents:tenant': 'acme' }
    const trace = { traceparent: TRACE, tracestate: 'a=1', baggage: 'b=2' }
    expect(found.get('charge.made')).toMatchObject({
      contentType: 'application/json',
      body: { id: 'a' },
      headers: { ...attributes, ...trace, 'cloudEvents:subject': 'a', 'cloudEvents:type': 'charge.made' },
    })
    expect(found.get('note.made')).toMatchObject({ contentType: 'application/json', body: 'a text' })
    expect(found.get('scan.made')).toMatchObject({ contentType: 'image/png', body: Buffer.from(BYTES) })
    await once.close()
  })

  it.each([{ mode: 'binary' }, { mode: 'structured' }] as const)(
    'our source reads %j, also what was given back',
    async (options) => {
      const { once, queue } = await published(options)
      const seen = new Map<string, { data: unknown }>()
      // What is busy elsewhere goes back to the queue as a copy.
      const from = rabbitmqSource(connection, { queue, events })
      const { signal } = new AbortController()
      const reader = { consumer: 'other', signal, prefetch: 10, positions: { read: async () => new Map() } } as never
      const subscription = await from.open(reader)
      const given = []
      while (given.length < 3) given.push(...(await subscription.receive({ max: 3, waitMs: 1_000, signal })))
      await subscription.giveBack(given, { delayMs: 0 })
      await subscription.close()
      const take = async (got: { type: string; data: unknown }): Promise<void> => {
        seen.set(got.type, got)
      }
      const handlers = { 'charge.made': take, 'note.made': take, 'scan.made': take }
      const consumer = once.consumer(`reader ${queue}`, { from }, handlers)
      await consumer.start()
      await until(() => seen.size === 3)
      for (const got of seen.values()) {
        const headers = { tenant: 'acme', shop: 'żółw', tracestate: 'a=1', baggage: 'b=2' }
        expect(got).toMatchObject({ source: 'shop', traceparent: TRACE, headers })
      }
      expect([...seen.values()].map(({ data }) => data)).toEqual(
        expect.arrayContaining([{ id: 'a' }, 'a text', BYTES]) as never,
      )
      await consumer.stop()
      await once.close()
    },
  )

  it('refuses another mode', () => {
    expect(() => rabbitmqSink(connection, { queue: 'q', mode: 'other' as never })).toThrow(/ONCE_OPTION_INVALID.*mode/)
  })
})
