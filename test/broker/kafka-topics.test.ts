import { Admin } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { kafkaSink, type KafkaSinkOptions } from '../../src/broker/kafka/sink.ts'
import { kafkaSource } from '../../src/broker/kafka/source.ts'
import type { Sink } from '../../src/sink/sink.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { until } from '../support/until.ts'
import { describeLate } from './support/describe-late.ts'
import { headerOf, makerFor, makeTopic, readerFor, recordsOf } from './support/kafka.ts'

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const events = {
  'charge.made': event<{ id: string }>(({ id }) => id),
  'stock.moved': event<{ id: string }>(({ id }) => id),
  'scan.made': event<{ id: string }>(({ id }) => id, {
    contentType: 'application/x-scan',
    encode: async ({ id }) => Buffer.from(id),
    decode: async (bytes) => ({ id: Buffer.from(bytes).toString() }),
  }),
}

await describeLate('Kafka: topics and modes', { server: 'kafka' }, (url) => {
  let admin: Admin
  let made = 0
  beforeAll(() => {
    admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host] })
  })
  afterAll(() => admin.close())

  const nameOf = (): string => `topics${process.pid}_${made++}`
  async function topic(): Promise<string> {
    const name = nameOf()
    await makeTopic(admin, name)
    return name
  }
  async function published(options: Parameters<typeof kafkaSink>[1]) {
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, sweep: false, guard: 'off' })
    await once.run({ scope: 's', key: 'one-key', input: null }, async ({ publish }) => {
      const more = { tenant: 'acme', headers: { shop: 'żółw' }, traceparent: TRACE, tracestate: 'a=1', baggage: 'b=2' }
      await publish('charge.made', { id: 'a' }, more)
      await publish('stock.moved', { id: 'b' }, more)
      await publish('scan.made', { id: 'c' }, more)
    })
    return { once, relay: once.relay({ to: kafkaSink(makerFor(url), options), attempts: 2 }) }
  }
  const typesIn = async (name: string): Promise<string[]> =>
    (await recordsOf(url, name)).map(({ value }) => (JSON.parse(value.toString()) as { type: string }).type).toSorted()

  it('each type goes to its topic; one without a topic holds up its own aggregate only', async () => {
    const [charges, scans] = [await topic(), await topic()]
    const { once, relay } = await published({
      topic: { 'charge.made': charges, 'scan.made': scans },
      name: 'by type',
    })
    await relay.start()
    await until(async () => (await once.parked.list({ destination: 'by type' })).length === 1)
    expect(await typesIn(charges)).toEqual(['charge.made'])
    expect(await typesIn(scans)).toEqual(['scan.made'])
    const [parked] = await once.parked.list({ destination: 'by type' })
    expect(parked).toMatchObject({
      type: 'stock.moved',
      reason: expect.stringContaining('not a valid topic') as string,
    })
    await once.close()
  })

  it('a function that names a topic nobody made stops nobody else', async () => {
    const there = await topic()
    const missing = nameOf()
    const { once, relay } = await published({
      topic: ({ type }) => (type === 'stock.moved' ? missing : there),
      name: 'by function',
    })
    await relay.start()
    await until(async () => (await recordsOf(url, there)).length === 2, 25_000)
    expect(await typesIn(there)).toEqual(['charge.made', 'scan.made'])
    await once.close()
  })

  it('three events for topics that nobody made delay the others by at most 2 s', async () => {
    const there = await topic()
    const missing = [nameOf(), nameOf(), nameOf()]
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, sweep: false, guard: 'off' })
    const sink = kafkaSink(makerFor(url), {
      topic: ({ subject }) => missing[Number(/^poison(\d)$/.exec(subject ?? '')?.[1])] ?? there,
      name: 'with poison',
    })
    const publishedAt = new Map<string, number>()
    const delays: number[] = []
    const measured: Sink = {
      ...sink,
      async send(sent, call) {
        const verdicts = await sink.send(sent, call)
        verdicts.forEach(({ kind }, i) => {
          const at = publishedAt.get(sent[i]?.subject ?? '')
          if (kind === 'sent' && at !== undefined) delays.push(performance.now() - at)
        })
        return verdicts
      },
    }
    const publishOne = (id: string): Promise<unknown> =>
      once.run({ scope: 's', key: `key of ${id}`, input: null }, async ({ publish }) => {
        await publish('charge.made', { id })
      })
    const relay = once.relay({ to: measured })
    await relay.start()
    const publishMany = async (count: number, name: string): Promise<number> => {
      delays.length = 0
      for (let i = 0; i < count; i++) {
        publishedAt.set(`${name}${i}`, performance.now())
        await publishOne(`${name}${i}`)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await until(() => delays.length === count, 25_000)
      return Math.max(...delays)
    }
    const without = await publishMany(30, 'before')
    await Promise.all(missing.map((_, i) => publishOne(`poison${i}`)))
    const beside = await publishMany(150, 'beside')
    expect(beside - without).toBeLessThan(2_000)
    await once.close()
  }, 90_000)

  it('binary mode: attributes are headers, the value is the data, and our source reads both', async () => {
    const name = await topic()
    const { once, relay } = await published({ topic: name, mode: 'binary' })
    expect(await relay.drain()).toBe(3)
    const records = await recordsOf(url, name)
    const charge = records.find((record) => headerOf(record, 'ce_type') === 'charge.made')
    expect(charge?.value.toString()).toBe('{"id":"a"}')
    expect(headerOf(charge as never, 'ce_subject')).toBe('a')
    expect(headerOf(charge as never, 'content-type')).toBe('application/json')
    expect(headerOf(charge as never, 'tracestate')).toBe('a=1')
    const seen: unknown[] = []
    const reader = once.consumer(
      `reader-${name}`,
      { from: kafkaSource(readerFor(url), { topic: name, events }) },
      {
        'charge.made': async (got) => void seen.push(got),
        'stock.moved': async (got) => void seen.push(got),
        'scan.made': async (got) => void seen.push(got),
      },
    )
    await reader.start()
    await until(() => seen.length === 3, 25_000)
    for (const got of seen) {
      const headers = expect.objectContaining({
        tenant: 'acme',
        shop: 'żółw',
        tracestate: 'a=1',
        baggage: 'b=2',
      }) as never
      expect(got).toMatchObject({ source: 'shop', traceparent: TRACE, headers })
    }
    expect(seen.map((got) => (got as { data: { id: string } }).data.id).toSorted()).toEqual(['a', 'b', 'c'])
    await once.close()
  })

  it.each([
    { topic: {}, name: 'x' },
    { topic: { a: 'no topic' }, name: 'x' },
    { topic: { a: 'topic' } },
    { topic: () => 'topic' },
    { topic: 'topic', mode: 'other' },
  ])('%j is refused', (options) => {
    expect(() => kafkaSink(makerFor(url), options as KafkaSinkOptions)).toThrow(/ONCE_OPTION_INVALID/)
  })
})
