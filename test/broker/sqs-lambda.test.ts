import type { SQSEvent } from 'aws-lambda'
import type { SQS } from '@aws-sdk/client-sqs'
import { expect, it } from 'vitest'
import { lambdaSource, type LambdaSqsAnswer, type LambdaSqsEvent } from '../../src/broker/sqs/lambda.ts'
import { sqsSink } from '../../src/broker/sqs/sink.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { events, INSERT, openWorld } from '../consumer/world.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeLate } from './support/describe-late.ts'
import { newQueue, sqsClient } from './support/sqs.ts'

const VISIBILITY_SECONDS = 2
const context = { getRemainingTimeInMillis: () => 30_000 }
const { signal } = new AbortController()

type Invoke = (event: LambdaSqsEvent, time: typeof context) => Promise<LambdaSqsAnswer>

/** As Lambda's event source does: polls, invokes, and deletes what is not reported as failed. Returns how often it invoked. */
async function pollLike(client: SQS, queue: string, invoke: Invoke, isDone: () => Promise<boolean>): Promise<number> {
  let invocations = 0
  const deadline = performance.now() + 60_000
  while (performance.now() < deadline && !(await isDone())) {
    const { Messages = [] } = await client.receiveMessage({
      QueueUrl: queue,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      VisibilityTimeout: VISIBILITY_SECONDS,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['All'],
    })
    if (Messages.length === 0) continue
    const Records = Messages.map(
      ({ MessageId = '', ReceiptHandle = '', Body = '', Attributes, MessageAttributes = {} }) => ({
        messageId: MessageId,
        receiptHandle: ReceiptHandle,
        body: Body,
        attributes: Attributes as unknown as SQSEvent['Records'][number]['attributes'],
        messageAttributes: Object.fromEntries(
          Object.entries(MessageAttributes).map(([name, { StringValue, DataType = 'String' }]) => [
            name,
            { stringValue: StringValue, dataType: DataType },
          ]),
        ),
        md5OfBody: '',
        eventSource: 'aws:sqs',
        eventSourceARN: `arn:aws:sqs:eu-central-1:000000000000:${queue.split('/').at(-1)}`,
        awsRegion: 'eu-central-1',
      }),
    )
    invocations++
    const failed = await invoke({ Records } satisfies SQSEvent, context).catch(() => undefined)
    const ids = new Set(failed?.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier))
    const done = failed ? Messages.filter(({ MessageId = '' }) => !ids.has(MessageId)) : []
    const Entries = done.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }))
    if (Entries.length > 0) await client.deleteMessageBatch({ QueueUrl: queue, Entries })
  }
  return invocations
}

await describeLate('a Lambda function behind SQS', { server: 'sqs', postgres: true }, (url) => {
  it.each(['steps', 'steps.fifo'])(
    '%s: every effect once although handlers fail and messages come twice, in a FIFO queue in order',
    { timeout: 90_000 },
    async (kind) => {
      const database = await freshDatabase()
      const client = sqsClient(url)
      const queue = await newQueue(client, `lambda${Math.random().toString(36).slice(2)}-${kind}`)
      const world = await openWorld(database.url)
      try {
        const sent = Array.from({ length: 40 }, (_, i) => {
          const aggregate = `p${i % 4}`
          const n = Math.floor(i / 4) + 1
          return { ...eventFor(aggregate, n), id: `${aggregate}-${n}` }
        })
        const twice = sent.map((one) => ({ ...one, deduplicationId: `${one.id}:again`, brokerId: `${one.id}:again` }))
        await sqsSink(client, { queue }).send([...sent, ...twice], { signal })
        const from = lambdaSource({ events })
        const fails = new Set(['p1-3', 'p2-5'])
        const consumer = world.once.consumer(
          'effects',
          { from, attempts: 100 },
          {
            'step.made': async ({ id, data }, { tx }) => {
              await tx.query(INSERT, [id, data.aggregate, data.n])
              // The first time: then SQS delivers it again.
              if (fails.delete(id)) throw new Error('not now')
            },
          },
        )
        const count = () => world.count('applied')
        const left = async (): Promise<number> => {
          const { Attributes: of = {} } = await client.getQueueAttributes({ QueueUrl: queue, AttributeNames: ['All'] })
          return Number(of.ApproximateNumberOfMessages) + Number(of.ApproximateNumberOfMessagesNotVisible)
        }
        const isDone = async (): Promise<boolean> => (await left()) === 0
        expect(await pollLike(client, queue, from.handler(consumer), isDone)).toBeGreaterThan(5)
        expect([await count(), await world.count('(select distinct id from applied) a'), fails.size]).toEqual([
          40, 40, 0,
        ])
        expect(await world.count('effectively_once.dead_letter')).toBe(0)
        if (kind.endsWith('.fifo')) expect(await world.count('applied where before <> n - 1')).toBe(0)
      } finally {
        await world.close()
        await client.deleteQueue({ QueueUrl: queue })
        client.destroy()
        await database.drop()
      }
    },
  )
})
