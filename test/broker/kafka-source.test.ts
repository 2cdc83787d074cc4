import { Admin } from '@platformatic/kafka'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { kafkaSink } from '../../src/broker/kafka/sink.ts'
import { KafkaProducerSlot, sendTo } from '../../src/broker/kafka/producer.ts'
import { kafkaSource, type KafkaSourceOptions } from '../../src/broker/kafka/source.ts'
import type { MakeKafkaConsumer } from '../../src/broker/kafka/consumer-client.ts'
import type { Delivery, ReceivedEvent, Subscription } from '../../src/source/source.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { describeLate } from './support/describe-late.ts'
import { survivesKills } from './support/describe-consumer-chaos.ts'
import { makerFor, makeTopic, readerFor } from './support/kafka.ts'

const { signal } = new AbortController()

await describeLate('a Kafka source', { server: 'kafka' }, (url) => {
  let admin: Admin
  let places = 0
  const open: Subscription[] = []
  beforeAll(() => {
    admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host] })
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((subscription) => subscription.close()))
  })
  afterAll(() => admin.close())

  async function freshTopic(): Promise<string> {
    const topic = `source_${process.pid}_${places++}`
    await makeTopic(admin, topic)
    return topic
  }
  async function send(topic: string, events: readonly ReturnType<typeof eventFor>[]): Promise<void> {
    const sink = kafkaSink(makerFor(url), { topic })
    await sink.send(events, { signal })
    await sink.close?.()
  }
  const some = (name: string, count: number, from = 1) =>
    Array.from({ length: count }, (_, i) => eventFor(`${name}${i % 12}`, from + Math.floor(i / 12)))

  interface Reader {
    readonly subscription: Subscription
    readonly warnings: string[]
    readonly revoked: string[]
  }
  async function read(
    topic: string,
    stored: ReadonlyMap<string, string> = new Map(),
    options: Partial<KafkaSourceOptions<{}>> = {},
    asked: { sessionTimeout: number; rebalanceTimeout: number }[] = [],
  ): Promise<Reader> {
    const warnings: string[] = []
    const revoked: string[] = []
    const make: MakeKafkaConsumer = (settings) => {
      asked.push(settings)
      return readerFor(url)(settings)
    }
    const source = kafkaSource(make, { topic, events: {}, sessionTimeout: '2s', ...options })
    const subscription = await source.open({
      consumer: `group-${topic}`,
      signal,
      prefetch: 20,
      positions: { read: async (names) => new Map([...stored].filter(([name]) => names.includes(name))) },
      warn: (error) => warnings.push(String(error)),
      advise: () => {},
    })
    subscription.onRevoked?.((partitions) => void revoked.push(...partitions))
    open.push(subscription)
    return { subscription, warnings, revoked }
  }
  async function take({ subscription }: Reader, count: number, waitMs = 15_000): Promise<Delivery[]> {
    const taken: Delivery[] = []
    for (const until = Date.now() + waitMs; taken.length < count && Date.now() < until;) {
      taken.push(...(await subscription.receive({ max: count - taken.length, waitMs: 100, signal })))
    }
    return taken
  }
  const ids = (deliveries: readonly { readonly id: string }[]): string[] => deliveries.map(({ id }) => id)
  const after = (deliveries: readonly Delivery[]): Map<string, string> =>
    new Map(deliveries.map(({ position }) => [position?.partition ?? '', position?.next ?? '']))

  it('reads from the beginning, each aggregate in order, with every attribute', async () => {
    const topic = await freshTopic()
    const events = some('a', 60)
    await send(topic, events)
    const deliveries = await take(await read(topic), 60)
    expect(ids(deliveries).toSorted()).toEqual(ids(events).toSorted())
    for (const { subject } of events.slice(0, 12)) {
      const of = (list: readonly Delivery[]) => ids(list.filter(({ aggregate }) => aggregate === subject))
      expect(of(deliveries)).toEqual(ids(events.filter((event) => event.subject === subject)))
    }
    const first = deliveries[0] as Delivery
    const event = events.find(({ id }) => id === first.id)
    const { source, type, traceparent, data } = first.event as ReceivedEvent
    expect({ source, type, traceparent, data }).toEqual({
      source: event?.source,
      type: event?.type,
      traceparent: event?.traceparent,
      data: event?.data,
    })
  })

  it('brings bytes as bytes, with every header, in the partition of its key', async () => {
    const topic = await freshTopic()
    const bytes = Uint8Array.of(0, 1, 254, 255)
    const headers = { source: 'contract', tenant: 'acme', partitionkey: 'p7' }
    const datacontenttype = 'application/octet-stream'
    const own = { data: bytes, body: bytes, json: '"AAH+/w=="', datacontenttype, headers }
    const events = Array.from({ length: 12 }, (_, n) => ({ ...eventFor(`b${n}`, 1), ...own }))
    await send(topic, events)
    const deliveries = await take(await read(topic), 12)
    expect(new Set(deliveries.map(({ position }) => position?.partition)).size).toBe(1)
    for (const { event, tenant } of deliveries) {
      expect((event as ReceivedEvent).data).toEqual(bytes)
      expect(tenant).toBe('acme')
    }
  })

  it('brings its partitions in turn, and needs no longer than a session to share them', async () => {
    const topic = await freshTopic()
    await send(topic, some('a', 240))
    const asked: { sessionTimeout: number; rebalanceTimeout: number }[] = []
    const deliveries = await take(await read(topic, new Map(), {}, asked), 240)
    const partitions = deliveries.map(({ position }) => position?.partition)
    const all = new Set(partitions)
    expect(all.size).toBeGreaterThan(2)
    expect(new Set(partitions.slice(0, all.size))).toEqual(all)
    expect(asked[0]).toMatchObject({ sessionTimeout: 2_000, rebalanceTimeout: 2_000 })
  })

  it('goes on where the database says, not where Kafka does', async () => {
    const topic = await freshTopic()
    const [before, later] = [some('a', 48), some('b', 48)]
    await send(topic, before)
    const first = await read(topic)
    const seen = await take(first, 48)
    await first.subscription.ack(seen)
    await send(topic, later)
    await open.shift()?.close()
    // Nothing was stored: everything comes again, and what may have killed a process is marked.
    const again = await take(await read(topic), 96)
    expect(new Set(ids(again)).size).toBe(96)
    expect(again.filter(({ redelivered }) => redelivered).length).toBeGreaterThanOrEqual(20)
    await open.shift()?.close()
    const rest = await take(await read(topic, after(seen)), 48)
    expect(ids(rest).toSorted()).toEqual(ids(later).toSorted())
  })

  it('shares the partitions, and hands them over', { timeout: 60_000 }, async () => {
    const topic = await freshTopic()
    const one = await read(topic)
    await send(topic, some('a', 24))
    const mine = await take(one, 24)
    const two = await read(topic, after(mine))
    const events = some('b', 240)
    // Both must be members before it counts.
    const until = Date.now() + 20_000
    while (one.revoked.length === 0 && Date.now() < until) await take(one, 1, 100)
    await take(two, 1, 2_000)
    await send(topic, events)
    const [left, right] = [take(one, 240, 6_000), take(two, 240, 6_000)]
    const both = [await left, await right]
    expect(ids(both.flat()).toSorted()).toEqual(ids(events).toSorted())
    expect(both.every((list) => list.length > 0)).toBe(true)
    expect(one.revoked).toHaveLength(3)
    // The one that leaves is followed by the other at once.
    await open.pop()?.close()
    const more = some('c', 120)
    await send(topic, more)
    const got = new Set<string>()
    for (const limit = Date.now() + 20_000; Date.now() < limit && !more.every(({ id }) => got.has(id));) {
      for (const { id } of await take(one, 50, 500)) got.add(id)
    }
    expect(more.filter(({ id }) => !got.has(id))).toEqual([])
  })

  it('gives back after the delay, marked, and only what is still its own', async () => {
    const topic = await freshTopic()
    await send(topic, [eventFor('x', 1)])
    const reader = await read(topic)
    const [delivery] = await take(reader, 1)
    const since = performance.now()
    await reader.subscription.giveBack([delivery as Delivery], { delayMs: 400 })
    const [again] = await take(reader, 1)
    expect(performance.now() - since).toBeGreaterThan(390)
    expect([again?.id, again?.redelivered, again?.position]).toEqual([delivery?.id, true, delivery?.position])
  })

  it('does not show what transactions took back, however many', async () => {
    const topic = await freshTopic()
    const slot = new KafkaProducerSlot(makerFor(url), `undo-${topic}`)
    const record = (id: string) => ({
      topic,
      key: Buffer.from('same'),
      value: Buffer.from(JSON.stringify({ specversion: '1.0', id, source: 's', type: 't', data: id })),
    })
    for (let i = 0; i < 4; i++) {
      const kept = slot.transaction(undefined, (transaction) => sendTo(transaction, [record(`kept${i}`)]))
      await kept
      const undone = slot.transaction(undefined, async (transaction) => {
        await sendTo(transaction, [record(`undone${i}`)])
        throw new Error('no')
      })
      await expect(undone).rejects.toThrow('no')
    }
    await slot.close()
    await send(topic, [eventFor('same', 9)])
    const deliveries = await take(await read(topic), 5)
    expect(ids(deliveries)).toEqual(['kept0', 'kept1', 'kept2', 'kept3', eventFor('same', 9).id])
  })

  it('says what was deleted before it was read, and goes on', async () => {
    const topic = await freshTopic()
    await send(topic, some('a', 60))
    const beyond = new Map(Array.from({ length: 6 }, (_, partition) => [`${topic}/${partition}`, '1000000']))
    const reader = await read(topic, beyond)
    expect(await take(reader, 60)).toHaveLength(60)
    expect(reader.warnings.join('\n')).toContain('ends before position 1000000')
  })

  it('delivers what is no event, under the id of its place', async () => {
    const topic = await freshTopic()
    const slot = new KafkaProducerSlot(makerFor(url))
    await slot.use(undefined, (producer) => sendTo(producer, [{ topic, value: Buffer.from('{"no') }, { topic }]))
    await slot.close()
    const deliveries = await take(await read(topic), 2)
    expect(deliveries.map(({ problem }) => typeof problem)).toEqual(['string', 'string'])
    expect(ids(deliveries).toSorted()).toEqual([`${topic}/0/0`, `${topic}/1/0`])
  })

  it('needs a function, a topic and a catalogue', async () => {
    const make = readerFor(url)
    for (const wrong of [{}, { topic: 'a' }, { topic: 'a b', events: {} }, { topic: 'a', events: {}, from: 'end' }]) {
      expect(() => kafkaSource(make, wrong as never)).toThrow(/ONCE_OPTION_INVALID/)
    }
    expect(() => kafkaSource({} as never, { topic: 'a', events: {} })).toThrow(/ONCE_OPTION_INVALID/)
    await expect(read('nobody-made-it')).rejects.toThrow(/ONCE_OPTION_INVALID.*has no topic/)
  })
})

await describeLate('consumers of Kafka killed at random', { server: 'kafka', postgres: true }, (url) => {
  survivesKills('kafka', url, 'noLanes')
})
