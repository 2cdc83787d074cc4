import { expect, it } from 'vitest'
import type { OutgoingEvent, Sink } from '../../sink/sink.ts'
import { eventFor } from '../../testing/sink-contract/index.ts'
import type { BatchAnswer, SnsEntry, SqsClient, SqsEntry } from './client.ts'
import { sqsSink, type SqsSinkOptions } from './sink.ts'
import { snsSink } from './sns-sink.ts'

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/payments'
const { signal } = new AbortController()

/** Answers each request, and keeps what was sent. */
function clientOf(answer: (entries: SqsEntry[], queue: string) => BatchAnswer) {
  const requests: SqsEntry[][] = []
  const client = {
    sendMessageBatch: async ({ QueueUrl, Entries }: { QueueUrl: string; Entries: SqsEntry[] }) => {
      requests.push(Entries)
      return answer(Entries, QueueUrl)
    },
    getQueueAttributes: async () => ({ Attributes: { MessageRetentionPeriod: '1209600', MaximumMessageSize: '2048' } }),
  } as unknown as SqsClient
  return { client, requests }
}

const allOf = (entries: SqsEntry[]): BatchAnswer => ({ Successful: entries.map(({ Id }) => ({ Id })) })
const named = (name: string): Error => Object.assign(new Error(name), { name })
const send = (sink: Sink, ...events: OutgoingEvent[]) => sink.send(events, { signal })
const kinds = async (sink: Sink, ...events: OutgoingEvent[]) =>
  (await send(sink, ...events)).map((verdict) => (verdict.kind === 'sent' ? 'sent' : verdict.retryable))

it('declares what the kind of queue promises', () => {
  const { client } = clientOf(allOf)
  const of = (queue: SqsSinkOptions['queue']) => {
    const { proves, dedupes, orders } = sqsSink(client, { queue, name: 'x' })
    return { proves, dedupes, orders }
  }
  expect(of(QUEUE)).toEqual({ proves: 'replicated', dedupes: false, orders: false })
  expect(of(`${QUEUE}.fifo`)).toEqual({ proves: 'replicated', dedupes: '5m', orders: true })
  expect(of('http://localhost:9324/0/a.fifo')).toEqual({ proves: 'accepted', dedupes: '5m', orders: true })
  expect(of(() => QUEUE)).toEqual({ proves: 'accepted', dedupes: false, orders: false })
})

it('sends ten events in a request, one of each aggregate', async () => {
  const { client, requests } = clientOf(allOf)
  const many = Array.from({ length: 23 }, (_, i) => eventFor(`a${i}`, 1))
  await send(sqsSink(client, { queue: QUEUE }), ...many, eventFor('a0', 2))
  expect(requests.map((entries) => entries.length)).toEqual([10, 10, 3, 1])
})

it('gives SQS ids that it takes: of the aggregate and of the event, hashed if they are too long or have other characters', async () => {
  const { client, requests } = clientOf(allOf)
  const long = 'x'.repeat(129)
  await send(sqsSink(client, { queue: `${QUEUE}.fifo` }), eventFor('plain', 1), eventFor('with space', 1), {
    ...eventFor(long, 1),
    deduplicationId: 'żółw',
  })
  const [plain, spaced, other] = requests.flat()
  expect([plain?.MessageGroupId, plain?.MessageDeduplicationId]).toEqual(['plain', eventFor('plain', 1).id])
  for (const id of [spaced?.MessageGroupId, other?.MessageGroupId, other?.MessageDeduplicationId]) {
    expect(id).toMatch(/^[0-9a-f]{64}$/)
  }
  expect(Object.keys(plain?.MessageAttributes ?? {}).length).toBeLessThanOrEqual(10)
})

it('a standard queue gets no group, and characters that SQS refuses are escaped', async () => {
  const { client, requests } = clientOf(allOf)
  await send(sqsSink(client, { queue: QUEUE }), eventFor('a', 1, { text: 'x\uffffy\ufffe' }))
  const [entry] = requests.flat()
  expect(entry).not.toHaveProperty('MessageGroupId')
  expect(entry?.MessageBody).not.toMatch(/[\ufffe\uffff]/)
  expect((JSON.parse(entry?.MessageBody ?? '') as { data: unknown }).data).toEqual({ text: 'x\uffffy\ufffe' })
})

it('each entry gets its own verdict, and nothing overtakes a failed one', async () => {
  const failures: Record<string, object> = {
    refused: { SenderFault: true, Code: 'InvalidParameterValue' },
    broken: { SenderFault: false, Code: 'InternalError' },
    busy: { SenderFault: true, Code: 'KmsThrottled' },
  }
  const { client, requests } = clientOf((entries) => {
    const codeOf = ({ MessageBody }: SqsEntry) => failures[(JSON.parse(MessageBody) as { subject: string }).subject]
    return {
      Successful: entries.filter((entry) => !codeOf(entry)).map(({ Id }) => ({ Id })),
      Failed: entries.filter(codeOf).map((entry) => ({ Id: entry.Id, ...codeOf(entry) })),
    }
  })
  const sink = sqsSink(client, { queue: `${QUEUE}.fifo` })
  const subjects = ['fine', 'refused', 'broken', 'busy']
  const events = [1, 2].flatMap((n) => subjects.map((subject) => eventFor(subject, n)))
  expect(await kinds(sink, ...events)).toEqual(['sent', false, true, true, 'sent', false, true, true])
  expect(requests.map((entries) => entries.length)).toEqual([4, 1])
})

it('an event that is too large is refused with its size, and the others are sent', async () => {
  const { client, requests } = clientOf(allOf)
  const sink = sqsSink(client, { queue: QUEUE })
  await sink.open?.()
  const verdicts = await send(sink, eventFor('a', 1, 'x'.repeat(3_000)), eventFor('b', 1))
  expect(verdicts).toMatchObject([{ kind: 'failed', retryable: false }, { kind: 'sent' }])
  expect(String((verdicts[0] as { error: unknown }).error)).toMatch(
    /the event has 3\d\d\d bytes; .*payments takes 2048/,
  )
  expect(requests.flat()).toHaveLength(1)
})

it('splits requests by their bytes', async () => {
  const { client, requests } = clientOf(allOf)
  const half = 'x'.repeat(500 * 1024)
  await send(sqsSink(client, { queue: QUEUE }), ...['a', 'b', 'c'].map((name) => eventFor(name, 1, half)))
  expect(requests.map((entries) => entries.length)).toEqual([2, 1])
})

it('when SQS refuses a whole request for a message, the others are sent alone', async () => {
  const { client } = clientOf((entries) => {
    if (entries.some(({ MessageBody }) => MessageBody.includes('bad'))) throw named('InvalidMessageContents')
    return allOf(entries)
  })
  const sink = sqsSink(client, { queue: QUEUE })
  expect(await kinds(sink, eventFor('good', 1), eventFor('bad', 1), eventFor('fine', 1))).toEqual([
    'sent',
    false,
    'sent',
  ])
})

it('a queue that a function chose is to blame alone; the only queue is down', async () => {
  const { client } = clientOf((entries, queue) => {
    if (queue.endsWith('missing')) throw named('QueueDoesNotExist')
    return allOf(entries)
  })
  const queue = ({ subject }: OutgoingEvent) => (subject === 'none' ? 'nowhere' : `${QUEUE}-${subject}`)
  const sink = sqsSink(client, { queue, name: 'all' })
  expect(await kinds(sink, eventFor('there', 1), eventFor('missing', 1), eventFor('none', 1))).toEqual([
    'sent',
    true,
    true,
  ])
  await expect(send(sqsSink(client, { queue: `${QUEUE}-missing` }), eventFor('a', 1))).rejects.toThrow(
    'QueueDoesNotExist',
  )
})

it('what was sent is told although a later request fails, and nothing begins when the relay stops', async () => {
  const { client, requests } = clientOf((entries) => {
    if (requests.length > 1) throw new Error('connection lost')
    return allOf(entries)
  })
  const told: number[] = []
  const sink = sqsSink(client, { queue: QUEUE })
  const events = [eventFor('a', 1), eventFor('a', 2)]
  await expect(sink.send(events, { signal, told: (index) => void told.push(index) })).rejects.toThrow('connection lost')
  expect(told).toEqual([0])
  requests.length = 0
  expect(await sink.send(events, { signal, mayBegin: () => false })).toEqual([])
  expect(requests).toEqual([])
})

it('every call ends, also of a client that forgets it', async () => {
  const never = { sendMessageBatch: () => new Promise(() => {}) } as unknown as SqsClient
  const sink = sqsSink(never, { queue: QUEUE, timeout: '20ms' })
  await expect(send(sink, eventFor('a', 1))).rejects.toThrow('no answer from AWS within 20 ms')
})

it('a topic gets the same messages', async () => {
  const entries: SnsEntry[] = []
  const client = {
    publishBatch: async (request: { PublishBatchRequestEntries: SnsEntry[] }) => {
      entries.push(...request.PublishBatchRequestEntries)
      return { Successful: request.PublishBatchRequestEntries.map(({ Id }) => ({ Id })) }
    },
    getTopicAttributes: async () => ({ Attributes: { SubscriptionsConfirmed: '0' } }),
  }
  const sink = snsSink(client, { topic: 'arn:aws:sns:eu-central-1:123456789012:payments.fifo' })
  expect([sink.name, sink.dedupes, sink.orders]).toEqual(['sns payments.fifo', '5m', true])
  expect(String(await sink.open?.())).toMatch(/no confirmed subscription/)
  expect(await kinds(sink, eventFor('a', 1), eventFor('b', 1, 'x'.repeat(300 * 1024)))).toEqual(['sent', false])
  expect(entries).toMatchObject([{ Id: '0', MessageGroupId: 'a' }])
})

it('refuses what cannot work', () => {
  const { client } = clientOf(allOf)
  expect(() => sqsSink({ send: () => {} } as never, { queue: QUEUE })).toThrow(/ONCE_OPTION_INVALID.*not an SQSClient/)
  expect(() => sqsSink(client, { queue: 'payments' })).toThrow(/ONCE_OPTION_INVALID.*URL of a queue/)
  expect(() => sqsSink(client, { queue: () => QUEUE })).toThrow(/ONCE_OPTION_INVALID.*name/)
  expect(() => sqsSink(client, { queue: QUEUE, url: 'x' } as never)).toThrow(/unknown option 'url'/)
  expect(() => snsSink(client as never, { topic: 'x' })).toThrow(/ONCE_OPTION_INVALID.*not an SNSClient/)
  const sns = { publishBatch: async () => ({}), getTopicAttributes: async () => ({}) }
  expect(() => snsSink(sns, { topic: 'payments' })).toThrow(/ONCE_OPTION_INVALID.*ARN/)
  expect(() => snsSink(sns, { topic: () => 'x' })).toThrow(/ONCE_OPTION_INVALID.*name/)
})
