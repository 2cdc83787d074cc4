import { Admin } from '@platformatic/kafka'
import { expect, it } from 'vitest'
import type { KafkaConsumer, MakeKafkaConsumer } from '../../src/broker/kafka/consumer-client.ts'
import { KafkaProducerSlot, sendTo } from '../../src/broker/kafka/producer.ts'
import { describeLate } from '../broker/support/describe-late.ts'
import { makerFor, makeTopic, readerFor } from '../broker/support/kafka.ts'
import { openWorld } from '../consumer/world.ts'
import { freshDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { inboxReading, outputOf, pricedId } from './world.ts'

const READ_UNCOMMITTED = 0
const WAIT_MS = 60_000

/** A source with the wrong isolation: our source asks for committed records in each fetch, so the fetch is changed. */
function uncommitted(make: MakeKafkaConsumer): MakeKafkaConsumer {
  return (settings) => {
    const consumer = make(settings)
    const fetch = consumer.fetch.bind(consumer)
    consumer.fetch = (options: Parameters<KafkaConsumer['fetch']>[0]) =>
      fetch({ ...options, isolationLevel: READ_UNCOMMITTED })
    return consumer
  }
}

await describeLate('records of an aborted transaction', { server: 'kafka', postgres: true }, (url) => {
  const place = `isolation_${Math.random().toString(36).slice(2)}`
  const topic = outputOf({ place })

  async function write(transactionalId: string, ids: Readonly<Record<string, number>>, fate: 'commit' | 'abort') {
    const slot = new KafkaProducerSlot(makerFor(url), transactionalId)
    const messages = Object.entries(ids).map(([id, n]) => {
      const document = { specversion: '1.0', id, source: 'job', type: 'step.made', data: { aggregate: 'a', n } }
      return { topic, key: Buffer.from('a'), value: Buffer.from(JSON.stringify(document)) }
    })
    const writing = slot.transaction(undefined, async (transaction) => {
      await sendTo(transaction, messages)
      if (fate === 'abort') throw new Error('the job failed')
    })
    if (fate === 'abort') await expect(writing).rejects.toThrow('the job failed')
    else await writing
    await slot.close()
  }

  async function appliedBy(make: MakeKafkaConsumer): Promise<Record<string, number>> {
    const database = await freshDatabase()
    const world = await openWorld(database.url)
    const inbox = await inboxReading({ database: database.url, url, place }, make)
    try {
      await until(async () => (await world.applied()).has('last'), WAIT_MS)
      return Object.fromEntries(await world.applied())
    } finally {
      await inbox.close()
      await world.close()
      await database.drop()
    }
  }

  it('reach an inbox that reads uncommitted, and our source never', { timeout: 4 * WAIT_MS }, async () => {
    const admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host] })
    await makeTopic(admin, topic)
    const derived = pricedId('1')
    await write(place, { [derived]: 1, 'random-first': 2, foreign: 3 }, 'abort')
    await write(place, { [derived]: 1, 'random-second': 2, last: 4 }, 'commit')
    // One key is one partition, so whoever has the last one has all.
    expect(await appliedBy(readerFor(url))).toEqual({ [derived]: 1, 'random-second': 1, last: 1 })
    // Whatever level the consumer is created with.
    const careless: MakeKafkaConsumer = (settings) => readerFor(url)({ ...settings, isolationLevel: 0 } as never)
    expect(await appliedBy(careless)).toEqual({ [derived]: 1, 'random-second': 1, last: 1 })
    expect(await appliedBy(uncommitted(readerFor(url)))).toEqual({
      [derived]: 1,
      'random-first': 1,
      'random-second': 1,
      foreign: 1,
      last: 1,
    })
    await admin.deleteTopics({ topics: [topic] })
    await admin.close()
  })
})
