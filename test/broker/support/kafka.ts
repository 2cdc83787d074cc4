import { Admin, Consumer, Producer, type Message } from '@platformatic/kafka'
import { kafkaSink } from '../../../src/broker/kafka/sink.ts'
import type { MakeKafkaProducer } from '../../../src/broker/kafka/client.ts'
import type { MakeKafkaConsumer } from '../../../src/broker/kafka/consumer-client.ts'
import { kafkaSource } from '../../../src/broker/kafka/source.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'
import { receivedFrom, type Broker } from './broker.ts'

const PARTITIONS = 6
const READ_MS_MAX = 60_000
const UNCOMMITTED = 0
const READ_COMMITTED = 1

export const kafka: Broker = {
  server: 'kafka',
  async open({ url, place, make }) {
    const bootstrapBrokers = [new URL(url).host]
    const admin = new Admin({ clientId: 'tests', bootstrapBrokers, retries: 3, retryDelay: 200 })
    if (make) await makeTopic(admin, place)
    return {
      sink: () => kafkaSink(makerFor(url), { topic: place }),
      source: (events, { holdsFor } = {}) =>
        kafkaSource(readerFor(url), {
          topic: place,
          events,
          ...(holdsFor === undefined ? {} : { sessionTimeout: holdsFor }),
        }),
      async sendText(text) {
        const producer = new Producer({ clientId: 'tests', bootstrapBrokers })
        await producer.send({ messages: [{ topic: place, value: Buffer.from(text) }], acks: -1 })
        await producer.close()
      },
      async ends() {
        const reader = new Consumer({ clientId: 'tests', groupId: `ends-${place}`, bootstrapBrokers })
        try {
          const ends = (await reader.listOffsets({ topics: [place] })).get(place) ?? []
          return new Map(ends.map((end, partition) => [`${place}/${partition}`, end]))
        } finally {
          await Promise.resolve(reader.close(true))
        }
      },
      tooLarge: 1_200_000,
      received: async () => (await recordsOf(url, place)).map(asReceived),
      async back() {
        for (let i = 0; i < 100; i++) {
          const there = await admin.metadata({ topics: [place], forceUpdate: true }).catch(() => undefined)
          if (there) return
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
        throw new Error('Kafka does not come back')
      },
      remove: () => admin.deleteTopics({ topics: [place] }),
      close: () => admin.close(),
    }
  },
}

export function makerFor(url: string): MakeKafkaProducer {
  const bootstrapBrokers = [new URL(url).host]
  return (settings) => new Producer({ clientId: 'tests', bootstrapBrokers, connectTimeout: 2_000, ...settings })
}

export function readerFor(url: string): MakeKafkaConsumer {
  const bootstrapBrokers = [new URL(url).host]
  return (settings) => new Consumer({ clientId: 'tests', bootstrapBrokers, connectTimeout: 2_000, ...settings })
}

export async function makeTopic(admin: Admin, topic: string, configs: Record<string, string> = {}): Promise<void> {
  const list = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: 1, configs: list })
  // The broker knows it a moment later.
  for (let i = 0; i < 50; i++) {
    const known = await admin.metadata({ topics: [topic], forceUpdate: true }).catch(() => undefined)
    if (known) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Everything in a topic, read from its beginning: what transactions committed, unless asked for more. */
export async function recordsOf(url: string, topic: string, isolationLevel = READ_COMMITTED): Promise<Message[]> {
  const groupId = `reader-${Math.random().toString(36).slice(2)}`
  const consumer = new Consumer({ clientId: 'reader', groupId, bootstrapBrokers: [new URL(url).host] })
  try {
    // A commit is answered before its markers are written: what is there counts, and is waited for.
    const ends = (await consumer.listOffsets({ topics: [topic], isolationLevel: UNCOMMITTED })).get(topic) ?? []
    const all: Message[] = []
    const stream = await consumer.consume({
      topics: [topic],
      mode: 'earliest',
      autocommit: false,
      maxWaitTime: 100,
      isolationLevel,
    })
    stream.on('data', (message) => void all.push(message))
    // Also past the markers where transactions ended, which nobody is shown.
    const done = (): boolean =>
      ends.every((end, partition) => end === 0n || (stream.offsetsToFetch.get(`${topic}:${partition}`) ?? 0n) >= end)
    const deadline = performance.now() + READ_MS_MAX
    while (!done() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10))
    await new Promise((resolve) => setImmediate(resolve))
    await stream.close()
    return all
  } finally {
    await Promise.resolve(consumer.close(true))
  }
}

export function headerOf(message: Message, name: string): string | undefined {
  for (const [key, value] of message.headers) if (key.toString() === name) return value.toString()
  return undefined
}

function asReceived(message: Message): Received {
  return receivedFrom(message.value.toString(), headerOf(message, 'broker-id') ?? '')
}
