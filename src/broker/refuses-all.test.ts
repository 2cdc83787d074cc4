import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../test/support/until.ts'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import type { OutgoingEvent, Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { kafkaSink } from './kafka/sink.ts'
import { natsSink } from './nats/sink.ts'
import { rabbitmqSink } from './rabbitmq/sink.ts'
import { snsSink } from './sqs/sns-sink.ts'
import { sqsSink } from './sqs/sink.ts'

const events = { made: event<{ of: string }>(({ of }) => of) }
const name = 'sink'

/** The broker refuses places whose name contains one of its words. */
class Broker {
  refuses: RegExp = /never/
  /** What it took: the names of the places. */
  readonly took: string[] = []

  take(place: string, refusal: Error): void {
    if (this.refuses.test(place)) throw refusal
    this.took.push(place)
  }
}

type Make = (broker: Broker) => Sink

const placeOf = ({ subject }: OutgoingEvent): string => `place-${subject}`

const kafka: (refusal: Error) => Make = (refusal) => (broker) => {
  const producer = {
    metadata: async ({ topics = [] }: { topics?: string[] }) => {
      for (const topic of topics) if (broker.refuses.test(topic)) throw refusal
      return { topics: new Map() }
    },
    send: async ({ messages }: { messages: { topic: string }[] }) => {
      for (const { topic } of messages) broker.take(topic, refusal)
    },
    beginTransaction: async () => {},
    close: async () => {},
  }
  return kafkaSink(() => producer as never, { topic: placeOf, name })
}
const denied = Object.assign(new Error('not authorized'), {
  findBy: (_: string, id: string) => id === 'TOPIC_AUTHORIZATION_FAILED',
})

const missing = Object.assign(new Error('gone'), { name: 'QueueDoesNotExist' })
const all = (entries: { Id: string }[]) => ({ Successful: entries.map(({ Id }) => ({ Id })) })

const sqs: Make = (broker) => {
  const sendMessageBatch = async ({ QueueUrl, Entries }: { QueueUrl: string; Entries: { Id: string }[] }) => {
    for (const _ of Entries) broker.take(QueueUrl, missing)
    return all(Entries)
  }
  return sqsSink({ sendMessageBatch } as never, { queue: (of) => `https://sqs.x.amazonaws.com/1/${placeOf(of)}`, name })
}

const sns: Make = (broker) => {
  const publishBatch = async (of: { TopicArn: string; PublishBatchRequestEntries: { Id: string }[] }) => {
    for (const _ of of.PublishBatchRequestEntries) broker.take(of.TopicArn, missing)
    return all(of.PublishBatchRequestEntries)
  }
  return snsSink({ publishBatch } as never, { topic: (of) => `arn:aws:sns:x:1:${placeOf(of)}`, name })
}

/** Returns messages that no queue takes. */
const rabbitmq: Make = (broker) => {
  let back: (of: object) => void = () => {}
  const channel = {
    active: true,
    close: async () => {},
    confirmSelect: async () => {},
    on: (what: string, listener: () => void) => void (what === 'basic.return' && (back = listener)),
    basicPublish: async ({ routingKey, messageId }: { routingKey: string; messageId: string }) => {
      try {
        broker.take(routingKey, missing)
      } catch {
        back({ messageId, replyText: 'NO_ROUTE' })
      }
    },
  }
  const connection = { ready: true, acquire: async () => channel, onConnect: async () => {} }
  return {
    ...rabbitmqSink(connection as never, { exchange: 'steps', routingKey: placeOf, name }),
    open: async () => [],
  }
}

const nats: Make = (broker) => {
  const refusal = Object.assign(new Error('no right'), { name: 'PermissionViolationError' })
  const jetstream = {
    publish: async (subject: string) => broker.take(subject, refusal),
    jetstreamManager: async () => ({
      streams: { info: async () => ({ config: { name: 'steps', subjects: ['>'] } }) },
    }),
  }
  return natsSink(jetstream as never, { stream: 'steps', subject: placeOf, name })
}

let relay: Relay | undefined
afterEach(() => relay?.stop())

describe.each<[string, Make]>([
  ['Kafka without its rights', kafka(denied)],
  ['Kafka without its topics', kafka(new Error('Unknown topic place'))],
  ['SQS', sqs],
  ['SNS', sns],
  ['RabbitMQ', rabbitmq],
  ['NATS', nats],
])('%s', (_, make) => {
  async function relayed() {
    const parked: string[] = []
    const troubles: string[] = []
    const once = effectivelyOnce({
      namespace: 'refused',
      store: memoryStore(),
      events,
      sweep: false,
      guard: 'off',
      observe(signal) {
        if (signal.kind === 'parked') parked.push(signal.reason)
        if (signal.kind === 'troubled') troubles.push(String(signal.error))
      },
    })
    const broker = new Broker()
    let keys = 0
    const publish = (...aggregates: string[]) =>
      once.run({ scope: 's', key: `k${keys++}`, input: null }, async (context) => {
        for (const of of aggregates) await context.publish('made', { of })
      })
    relay = await once.relay({ to: make(broker), attempts: 2 }).start()
    return { broker, publish, parked, troubles }
  }

  it('that refuses every event is down, and no event loses an attempt', async () => {
    const { broker, publish, parked, troubles } = await relayed()
    broker.refuses = /place/
    const aggregates = ['a', 'b', 'c', 'd', 'e']
    await publish(...aggregates)
    await until(() => troubles.length > 4, 10_000)
    broker.refuses = /never/
    await until(() => broker.took.length === aggregates.length, 5_000)
    expect(troubles.join()).toContain('the sink cannot send')
    expect(parked).toEqual([])
  })

  it('that refuses one event among others fails that event', async () => {
    const { broker, publish, parked } = await relayed()
    broker.refuses = /bad/
    await publish('a', 'bad', 'b')
    await until(() => broker.took.length === 2)
    for (let n = 0; parked.length === 0 && n < 100; n++) {
      await publish(`more${n}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    expect(parked).toHaveLength(1)
  })
})
