import { SNS } from '@aws-sdk/client-sns'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { snsSink } from '../../src/broker/sqs/sns-sink.ts'
import { sqsSource } from '../../src/broker/sqs/source.ts'
import type { Delivery, ReceivedEvent } from '../../src/source/source.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { take } from '../../src/testing/source-contract/take.ts'
import { describeLate } from './support/describe-late.ts'
import { newQueue, sqsClient } from './support/sqs.ts'

const { signal } = new AbortController()

await describeLate('from a topic of SNS through a queue of SQS', { server: 'sns' }, (url) => {
  const sqs = sqsClient(url)
  const sns = new SNS({
    endpoint: url,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  })
  let topics = 0
  beforeAll(async () => void (await sns.listTopics({})))
  afterAll(() => {
    sns.destroy()
    sqs.destroy()
  })

  /** A topic with a queue that subscribes to it. */
  async function connected(ending: '' | '.fifo', raw: boolean) {
    const name = `topic${topics++}${ending}`
    const Attributes: Record<string, string> = ending === '' ? {} : { FifoTopic: 'true' }
    const { TopicArn: topic = '' } = await sns.createTopic({ Name: name, Attributes })
    const queue = await newQueue(sqs, name)
    const { Attributes: of = {} } = await sqs.getQueueAttributes({ QueueUrl: queue, AttributeNames: ['QueueArn'] })
    const Endpoint = of.QueueArn ?? ''
    const delivery: Record<string, string> = raw ? { RawMessageDelivery: 'true' } : {}
    await sns.subscribe({ TopicArn: topic, Protocol: 'sqs', Endpoint, Attributes: delivery })
    const source = sqsSource(sqs, { queue, events: {} })
    const subscription = await source.open({
      consumer: 'c',
      signal,
      prefetch: 100,
      positions: { read: async () => new Map() },
      warn: () => {},
      advise: () => {},
    })
    return { topic, subscription }
  }

  it.each<['' | '.fifo', boolean]>([
    ['', false],
    ['', true],
    ['.fifo', false],
    ['.fifo', true],
  ])('a topic%s, raw message delivery %s: every event arrives, with all its attributes', async (ending, raw) => {
    const { topic, subscription } = await connected(ending, raw)
    const sink = snsSink(sns, { topic })
    // moto does not count the subscriptions of a topic, so what `open` tells of them is not compared.
    await sink.open?.()
    const events = Array.from({ length: 12 }, (_, i) => eventFor(`a${i % 3}`, i, { text: 'żółw 🐢', i }))
    const verdicts = await sink.send(events, { signal })
    expect(verdicts.map(({ kind }) => kind)).toEqual(events.map(() => 'sent'))
    const seen: Delivery[] = []
    for (let i = 0; i < 12 && seen.length < 12; i++) {
      const more = await take(subscription, 1, 2_000)
      await subscription.ack(more)
      seen.push(...more)
    }
    expect(seen.map(({ id }) => id).toSorted()).toEqual(events.map(({ id }) => id).toSorted())
    const first = seen.find(({ id }) => id === events[0]?.id)
    expect([first?.type, first?.aggregate, first?.traceparent]).toEqual(['step.made', 'a0', events[0]?.traceparent])
    expect((first?.event as ReceivedEvent | undefined)?.data).toEqual({ text: 'żółw 🐢', i: 0 })
    expect(first?.headers['event-id']).toBe(events[0]?.id)
    await subscription.close()
  })

  it('a topic that does not exist is refused, and one that nobody reads is told', async () => {
    const missing = snsSink(sns, { topic: 'arn:aws:sns:eu-central-1:123456789012:nobody-made-it' })
    await expect(missing.open?.()).rejects.toThrow(/ONCE_OPTION_INVALID.*does not exist/)
    const { TopicArn: topic = '' } = await sns.createTopic({ Name: `lonely${topics++}` })
    expect(String(await snsSink(sns, { topic }).open?.())).toMatch(/no confirmed subscription/)
  })
})
