import type { SQSEvent, SQSRecord } from 'aws-lambda'
import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../index.ts'
import { sqliteStore } from '../../store/sqlite/sqlite.ts'
import { lambdaSource, type LambdaSqsAnswer } from './lambda.ts'

const events = { 'step.made': event<{ aggregate: string; n: number }>((step) => step.aggregate) }
const MINUTE = { getRemainingTimeInMillis: () => 60_000 }

function record(aggregate: string, n: number, queue = 'steps', received = 1): SQSRecord {
  const id = `${aggregate}-${n}`
  return {
    messageId: `m ${id}`,
    receiptHandle: `r ${id} ${received}`,
    body: JSON.stringify({
      specversion: '1.0',
      id,
      source: 's',
      type: 'step.made',
      subject: aggregate,
      data: { aggregate, n },
    }),
    attributes: {
      ApproximateReceiveCount: String(received),
      SentTimestamp: '0',
      SenderId: 'x',
      ApproximateFirstReceiveTimestamp: '0',
      ...(queue.endsWith('.fifo') ? { MessageGroupId: aggregate } : {}),
    },
    messageAttributes: { traceparent: { stringValue: '00-a-b-01', dataType: 'String' } },
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: `arn:aws:sqs:eu-central-1:1:${queue}`,
    awsRegion: 'eu-central-1',
  }
}

const batch = (...Records: SQSRecord[]): SQSEvent => ({ Records })
const failedOf = ({ batchItemFailures }: LambdaSqsAnswer): string[] =>
  batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)

/** A function whose handler fails for `bad`, and waits for `slow` until it is over. */
async function opened(options: { margin?: `${number}ms` } = {}) {
  const once = effectivelyOnce({ namespace: 'lambda', store: sqliteStore({ file: ':memory:' }), events, sweep: false })
  await once.migrate()
  const from = lambdaSource({ events, ...options })
  let reads = 0
  const query = (text: string): Promise<string[]> =>
    once.run({ scope: 'test', key: String(reads++), input: null }, async ({ tx }) => {
      const { rows } = await tx.query<{ id: string }>(text)
      return rows.map(({ id }) => id)
    })
  await query('create table ran (id text)')
  const ran = (): Promise<string[]> => query('select id from ran')
  const bad = new Set<string>()
  const consumer = once.consumer(
    'steps',
    { from, attempts: 100 },
    {
      'step.made': async ({ id }, { tx }) => {
        if (bad.has(id)) throw new Error('bad')
        if (id.startsWith('slow')) await new Promise((resolve) => setTimeout(resolve, 3_000))
        if (id.startsWith('steady')) await new Promise((resolve) => setTimeout(resolve, 500))
        await tx.query('insert into ran values (?)', [id])
      },
    },
  )
  return { once, ran, bad, handler: from.handler(consumer) }
}

it('handles a batch, and a message that comes again once', async () => {
  const { once, ran, handler } = await opened()
  expect(await handler(batch(record('a', 1), record('b', 1)), MINUTE)).toEqual({ batchItemFailures: [] })
  expect(failedOf(await handler(batch(record('a', 1, 'steps', 2), record('c', 1)), MINUTE))).toEqual([])
  expect((await ran()).toSorted()).toEqual(['a-1', 'b-1', 'c-1'])
  await once.close()
})

it('reports the messages that failed, and only those', async () => {
  const { once, ran, bad, handler } = await opened()
  bad.add('b-1')
  const failed = failedOf(await handler(batch(record('a', 1), record('b', 1), record('c', 1)), MINUTE))
  expect(failed).toEqual(['m b-1'])
  expect((await ran()).toSorted()).toEqual(['a-1', 'c-1'])
  bad.clear()
  expect(failedOf(await handler(batch(record('b', 1, 'steps', 2)), MINUTE))).toEqual([])
  expect(await ran()).toContain('b-1')
  await once.close()
})

it('in a FIFO queue, reports everything after the first failure of a group, and runs nothing of it', async () => {
  const { once, ran, bad, handler } = await opened()
  bad.add('a-2')
  const records = [1, 2, 3].flatMap((n) => [record('a', n, 'q.fifo'), record('b', n, 'q.fifo')])
  expect(failedOf(await handler(batch(...records), MINUTE))).toEqual(['m a-2', 'm a-3'])
  expect((await ran()).filter((id) => id.startsWith('a'))).toEqual(['a-1'])
  expect((await ran()).filter((id) => id.startsWith('b'))).toEqual(['b-1', 'b-2', 'b-3'])
  await once.close()
})

it('ends before the function does: what is not handled is reported', async () => {
  const { once, handler } = await opened({ margin: '400ms' })
  const began = performance.now()
  const failed = failedOf(await handler(batch(record('slow', 1)), { getRemainingTimeInMillis: () => 1_200 }))
  expect(failed).toEqual(['m slow-1'])
  expect(performance.now() - began).toBeLessThan(2_500)
  expect(failedOf(await handler(batch(record('a', 1)), { getRemainingTimeInMillis: () => 100 }))).toEqual(['m a-1'])
  await once.close()
})

it('a batch that takes longer than the function makes progress in each invocation', async () => {
  const { once, ran, handler } = await opened({ margin: '400ms' })
  const ids = ['steady-1', 'steady-2', 'steady-3', 'steady-4']
  let left = ids
  for (let received = 1; received <= ids.length && left.length > 0; received++) {
    const records = left.map((id) => record('steady', Number(id.at(-1)), 'steps', received))
    const failed = failedOf(await handler(batch(...records), { getRemainingTimeInMillis: () => 1_900 }))
    expect(failed.length).toBeLessThan(left.length)
    left = failed.map((id) => id.slice(2))
  }
  expect(left).toEqual([])
  expect((await ran()).toSorted()).toEqual(ids)
  await once.close()
})

it('one batch at a time, each with its own answer', async () => {
  const { once, bad, handler } = await opened()
  bad.add('b-1')
  const answers = await Promise.all([handler(batch(record('a', 1)), MINUTE), handler(batch(record('b', 1)), MINUTE)])
  expect(answers.map(failedOf)).toEqual([[], ['m b-1']])
  await once.close()
})

it('an invocation that could handle nothing fails, and refuses what is no event of SQS', async () => {
  const { once, handler } = await opened()
  await expect(handler({} as never, MINUTE)).rejects.toThrow(/ONCE_OPTION_INVALID/)
  await once.close()
  await expect(handler(batch(record('a', 1)), MINUTE)).rejects.toThrow(/ONCE_CLOSED/)
  expect(() => lambdaSource({} as never)).toThrow(/ONCE_OPTION_INVALID/)
  expect(() => lambdaSource({ events }).handler({} as never)).toThrow(/ONCE_OPTION_INVALID/)
})
