import { expect, it } from 'vitest'
import type { Subscription } from '../../source/source.ts'
import type { SqsClient, SqsMessage } from './client.ts'
import { sqsSource } from './source.ts'

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/1/a'
const { signal } = new AbortController()

const event = (id: string): string => JSON.stringify({ specversion: '1.0', id, source: 's', type: 't', data: 1 })
const message = (id: string, more: Partial<SqsMessage> = {}): SqsMessage => ({
  MessageId: id,
  ReceiptHandle: `receipt ${id}`,
  Body: event(id),
  Attributes: { ApproximateReceiveCount: '1' },
  ...more,
})

interface Calls {
  readonly deleted: string[][]
  readonly hidden: [seconds: number, receipts: string[]][]
}

async function opened(
  given: Partial<SqsClient>,
  options: object = {},
): Promise<{ subscription: Subscription; calls: Calls; advice: string[] }> {
  const calls: Calls = { deleted: [], hidden: [] }
  const advice: string[] = []
  const client = {
    getQueueAttributes: async () => ({}),
    receiveMessage: async () => ({}),
    deleteMessageBatch: async ({ Entries }: { Entries: { ReceiptHandle: string }[] }) => {
      calls.deleted.push(Entries.map(({ ReceiptHandle }) => ReceiptHandle))
      return {}
    },
    changeMessageVisibilityBatch: async ({
      Entries,
    }: {
      Entries: { ReceiptHandle: string; VisibilityTimeout: number }[]
    }) => {
      calls.hidden.push([Entries[0]?.VisibilityTimeout ?? -1, Entries.map(({ ReceiptHandle }) => ReceiptHandle)])
      return {}
    },
    ...given,
  } as unknown as SqsClient
  const source = sqsSource(client, { queue: QUEUE, events: {}, ...options })
  const subscription = await source.open({
    consumer: 'c',
    signal,
    prefetch: 100,
    positions: { read: async () => new Map() },
    warn: () => {},
    advise: (line) => void advice.push(line),
  })
  return { subscription, calls, advice }
}

/** Gives each list of messages once, then nothing. */
function batches(...lists: SqsMessage[][]): Pick<SqsClient, 'receiveMessage'> {
  return { receiveMessage: async () => ({ Messages: lists.shift() }) }
}

it('deletes in requests of ten, and sends what failed by itself again', async () => {
  const all = Array.from({ length: 12 }, (_, i) => message(`m${i}`))
  let failed = false
  const sent: string[][] = []
  const { subscription } = await opened({
    ...batches(all.slice(0, 10), all.slice(10)),
    deleteMessageBatch: async ({ Entries }) => {
      sent.push(Entries.map(({ ReceiptHandle }) => ReceiptHandle))
      if (failed) return {}
      failed = true
      return { Failed: [{ Id: '3', SenderFault: false, Code: 'InternalError' }] }
    },
  })
  const take = () => subscription.receive({ max: 12, waitMs: 100, signal })
  await subscription.ack([...(await take()), ...(await take())])
  expect(new Set(sent.map((list) => list.length))).toEqual(new Set([10, 2, 1]))
  expect(sent.at(-1)).toEqual(['receipt m3'])
})

it('tells when a message was not deleted, and leaves alone what others have', async () => {
  const expired = { Failed: [{ Id: '0', SenderFault: true, Code: 'ReceiptHandleIsInvalid' }] }
  const { subscription } = await opened({
    ...batches([message('a')]),
    deleteMessageBatch: async () => expired,
    changeMessageVisibilityBatch: async () => expired,
  })
  const taken = await subscription.receive({ max: 1, waitMs: 100, signal })
  await expect(subscription.ack(taken)).rejects.toThrow('1 messages were not deleted: ReceiptHandleIsInvalid')
  await subscription.giveBack(taken, { delayMs: 0 })
  await subscription.extend?.(taken)
})

it('returns what is not settled, and what comes after the end', async () => {
  let answer = (_: { Messages: SqsMessage[] }): void => {}
  const lists = [[message('a'), message('b')]]
  const { subscription, calls } = await opened({
    receiveMessage: () => {
      const Messages = lists.shift()
      return Messages ? Promise.resolve({ Messages }) : new Promise((resolve) => (answer = resolve))
    },
  })
  const [first] = await subscription.receive({ max: 2, waitMs: 100, signal })
  await subscription.ack([first!])
  const stop = new AbortController()
  const waiting = subscription.receive({ max: 2, waitMs: 5_000, signal: stop.signal })
  stop.abort()
  expect(await waiting).toEqual([])
  const closed = subscription.close()
  answer({ Messages: [message('late')] })
  await closed
  expect(calls.deleted).toEqual([['receipt a']])
  expect(calls.hidden).toEqual([[0, ['receipt b', 'receipt late']]])
})

it('rounds a delay up to seconds, and prolongs only what would become visible soon', async () => {
  const { subscription, calls } = await opened(batches([message('a'), message('b')]), { visibility: '1s' })
  const [a, b] = await subscription.receive({ max: 2, waitMs: 100, signal })
  await subscription.giveBack([a!], { delayMs: 1_001 })
  expect(calls.hidden).toEqual([[2, ['receipt a']]])
  await subscription.extend?.([b!])
  expect(calls.hidden).toHaveLength(1)
  await new Promise((resolve) => setTimeout(resolve, 400))
  await subscription.extend?.([b!])
  expect(calls.hidden[1]).toEqual([1, ['receipt b']])
  await subscription.extend?.([b!])
  expect(calls.hidden).toHaveLength(2)
})

it('reads events out of the envelope of SNS, with their attributes', async () => {
  const wrapped = JSON.stringify({
    Type: 'Notification',
    MessageId: 'sns',
    TopicArn: 'arn:aws:sns:eu-central-1:1:t',
    Message: event('inner'),
    MessageAttributes: { traceparent: { Type: 'String', Value: '00-a-b-01' } },
  })
  const notOne = JSON.stringify({ TopicArn: 'x', Type: 'Notification' })
  const { subscription } = await opened(
    batches([
      message('outer', { Body: wrapped }),
      message('no', { Body: notOne }),
      message('text', { Body: '"TopicArn"' }),
    ]),
  )
  const [inner, no, text] = await subscription.receive({ max: 3, waitMs: 100, signal })
  expect([inner?.id, inner?.traceparent, inner?.headers]).toEqual(['inner', '00-a-b-01', { traceparent: '00-a-b-01' }])
  expect([no?.problem, no?.id, no?.body]).toEqual([expect.any(String), 'a:no', notOne])
  expect([text?.problem, text?.id]).toEqual([expect.any(String), 'a:text'])
})

it('an envelope with odd attributes keeps no other message back', async () => {
  const envelope = { Type: 'Notification', TopicArn: 'arn:aws:sns:eu-central-1:1:t' }
  const odd = [null, 'text', [null], { a: null, b: { Value: 1 } }].map((MessageAttributes, n) =>
    message(`outer ${n}`, { Body: JSON.stringify({ ...envelope, Message: event(`e${n}`), MessageAttributes }) }),
  )
  const { subscription } = await opened(batches([...odd, message('plain')]))
  const got = await subscription.receive({ max: 5, waitMs: 100, signal })
  expect(got.map(({ id, headers }) => [id, headers])).toEqual(['e0', 'e1', 'e2', 'e3', 'plain'].map((id) => [id, {}]))
})

it('a failed read is told once, and the next one works', async () => {
  let calls = 0
  const { subscription } = await opened({
    receiveMessage: async () => {
      if (calls++ === 0) throw new Error('no network')
      return { Messages: [message('a')] }
    },
  })
  const take = () => subscription.receive({ max: 1, waitMs: 1_000, signal })
  await expect(take()).rejects.toThrow('no network')
  expect((await take()).map(({ id }) => id)).toEqual(['a'])
})

it('advises about a limit of receives, and refuses what cannot work', async () => {
  const RedrivePolicy = JSON.stringify({ maxReceiveCount: 5, deadLetterTargetArn: 'x' })
  const { advice } = await opened({ getQueueAttributes: async () => ({ Attributes: { RedrivePolicy } }) })
  expect(advice.join()).toMatch(/maxReceiveCount 5/)
  const gone = Object.assign(new Error('gone'), { name: 'QueueDoesNotExist' })
  const missing = opened({ getQueueAttributes: () => Promise.reject(gone) })
  await expect(missing).rejects.toThrow(/ONCE_OPTION_INVALID.*does not exist/)
  const client = { receiveMessage: async () => ({}) } as unknown as SqsClient
  expect(() => sqsSource(client, { queue: 'a', events: {} })).toThrow(/ONCE_OPTION_INVALID.*URL/)
  expect(() => sqsSource(client, { queue: QUEUE } as never)).toThrow(/ONCE_OPTION_INVALID.*events/)
  expect(() => sqsSource(client, { queue: QUEUE, events: {}, visibility: '1ms' })).toThrow(
    /ONCE_OPTION_INVALID|visibility/,
  )
  expect(() => sqsSource({} as never, { queue: QUEUE, events: {} })).toThrow(/not an SQSClient/)
  expect(sqsSource(client, { queue: `${QUEUE}.fifo`, events: {} }).features.orders).toBe(true)
  expect(sqsSource(client, { queue: QUEUE, events: {} }).features.orders).toBe(false)
})
