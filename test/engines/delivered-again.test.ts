import { Admin, Consumer, type Message } from '@platformatic/kafka'
import { expect, it } from 'vitest'
import { kafkaSink } from '../../src/broker/kafka/sink.ts'
import { kafkaTransform } from '../../src/broker/kafka/transform.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { describeLate } from '../broker/support/describe-late.ts'
import { makerFor, makeTopic } from '../broker/support/kafka.ts'
import { until } from '../support/until.ts'
import { committedIn } from './kafka-log.ts'

const EVENTS = 10
const TIMEOUT_MS = 60_000

await describeLate('a stream that delivers records again', { server: 'kafka' }, (url) => {
  it('after a rebalance: the job commits each result once', { timeout: 2 * TIMEOUT_MS }, async () => {
    const mark = Math.random().toString(36).slice(2)
    const [from, to] = [`again_in_${mark}`, `again_out_${mark}`]
    const bootstrapBrokers = [new URL(url).host]
    const admin = new Admin({ clientId: 'tests', bootstrapBrokers })
    for (const topic of [from, to]) await makeTopic(admin, topic)
    const inputs = Array.from({ length: EVENTS }, (_, i) => eventFor('a', i + 1))
    const sink = kafkaSink(makerFor(url), { topic: from })
    await sink.send(inputs, { signal: new AbortController().signal })

    const consumer = new Consumer({ clientId: 'again', groupId: mark, bootstrapBrokers })
    const read = { mode: 'committed', fallbackMode: 'earliest', autocommit: false, isolationLevel: 1 } as const
    const errors: unknown[] = []
    let streams = 0
    const job = kafkaTransform(makerFor(url), {
      transactionalId: mark,
      consumer,
      async consume() {
        const stream = await consumer.consume({ topics: [from], maxWaitTime: 50, ...read })
        const isFirst = streams++ === 0
        // After a rebalance the client fetches from the committed offset, and keeps what it had fetched before.
        async function* again(): AsyncGenerator<Message> {
          const seen: Message[] = []
          for await (const message of stream) {
            yield message
            if (isFirst && seen.push(message) === EVENTS) yield* seen.slice(0, EVENTS / 2)
          }
        }
        return Object.assign(again(), { close: () => stream.close() })
      },
      transform: ({ key, value }) => [{ topic: to, key, value }],
      onError: (error) => errors.push(error),
    })
    job.start()
    const partitions = [0, 1, 2, 3, 4, 5]
    const position = async (): Promise<bigint> => {
      const committed = await consumer.listCommittedOffsets({ topics: [{ topic: from, partitions }] })
      return (committed.get(from) ?? []).reduce((most, offset) => (offset > most ? offset : most), 0n)
    }
    await until(async () => (await committedIn(url, to)).length >= EVENTS, TIMEOUT_MS)
    await job.stop()
    expect(await position()).toBe(BigInt(EVENTS))
    const values = (await committedIn(url, to)).map(({ value }) => (JSON.parse(value) as { id: string }).id)
    expect(values).toEqual(inputs.map(({ id }) => id))
    expect(errors.map(String)).toEqual([expect.stringContaining('delivered again')])
    await sink.close?.()
    await Promise.resolve(consumer.close(true))
    await admin.deleteTopics({ topics: [from, to] })
    await admin.close()
  })
})
