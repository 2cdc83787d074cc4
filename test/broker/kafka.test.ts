import { Admin, Consumer } from '@platformatic/kafka'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kafkaSink, type KafkaSinkOptions } from '../../src/broker/kafka/sink.ts'
import { KafkaProducerSlot, sendTo } from '../../src/broker/kafka/producer.ts'
import { isKafkaError } from '../../src/broker/kafka/client.ts'
import { kafkaTransform } from '../../src/broker/kafka/transform.ts'
import type { OutgoingEvent, Sink, Verdict } from '../../src/sink/sink.ts'
import { eventFor, sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { startAlone } from '../../scripts/servers/index.ts'
import type { Halting } from './support/describe-broker.ts'
import { describeLate } from './support/describe-late.ts'
import { headerOf, makerFor, makeTopic, recordsOf } from './support/kafka.ts'
import { brokerOutage } from './support/outage.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

const signal = new AbortController().signal
const UNCOMMITTED = 0
const fates = (verdicts: readonly Verdict[]): unknown[] =>
  verdicts.map((verdict) => (verdict.kind === 'sent' ? 'sent' : { retryable: verdict.retryable }))

await describeLate('Kafka', { server: 'kafka' }, (url) => {
  let admin: Admin
  const sinks: Sink[] = []
  const names = new Set<string>()
  const fresh = (): string => {
    const name = `t${process.pid}_${names.size}`
    names.add(name)
    return name
  }
  beforeAll(() => {
    admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host] })
  })
  afterAll(async () => {
    await Promise.all(sinks.map(async (sink) => sink.close?.()))
    await admin.close()
  })

  async function topicWith(configs: Record<string, string> = {}): Promise<string> {
    const topic = fresh()
    await makeTopic(admin, topic, configs)
    return topic
  }
  function sinkFor(options: KafkaSinkOptions): Sink {
    const sink = kafkaSink(makerFor(url), options)
    sinks.push(sink)
    return sink
  }
  const idsIn = async (topic: string, isolationLevel?: number): Promise<string[]> =>
    (await recordsOf(url, topic, isolationLevel)).map((record) => headerOf(record, 'event-id') ?? '')

  for (const kind of ['idempotent', 'transactional'] as const) {
    describe(`the sink contract, ${kind}`, () => {
      const open = async () => {
        // The server is everybody's: it is taken away in a test of its own.
        const { outage: _, ...target } = await sinkTarget('kafka', { url } as never)
        if (kind === 'idempotent') return target
        const topic = target.sink.name.slice('kafka '.length)
        return { ...target, sink: sinkFor({ topic, transactionalId: `contract-${topic}` }) }
      }
      for (const { name, run } of sinkContract(open)) {
        it(name, () => expect(run()).resolves.toBeUndefined())
      }
    })
  }

  describe('a sink', () => {
    it('names what weakens its topic', async () => {
      const topic = await topicWith({ 'cleanup.policy': 'compact', 'unclean.leader.election.enable': 'true' })
      const sink = sinkFor({ topic, admin })
      const warnings = (await sink.open?.())?.join('\n')
      expect(warnings).toMatch(/1 replica[^]*min\.insync\.replicas 1[^]*compacted[^]*unclean\.leader\.election/)
      expect(sink.proves).toBe('accepted')
      expect((await sinkFor({ topic }).open?.())?.join('\n')).toMatch(/was not checked[^]*Pass admin/)
      await expect(sinkFor({ topic: fresh() }).open?.()).rejects.toThrow(/ONCE_OPTION_INVALID.*has no topic/)
    })

    it('needs a function and a topic', () => {
      const make = makerFor(url)
      for (const wrong of [{}, { topic: 'a b' }, { topic: 'a', acks: 1 }, { topic: 'a', transactionalId: '' }]) {
        expect(() => kafkaSink(make, wrong as KafkaSinkOptions)).toThrow(/ONCE_OPTION_INVALID/)
      }
      expect(() => kafkaSink({} as never, { topic: 'a' })).toThrow(/ONCE_OPTION_INVALID/)
    })

    it('refuses a producer that was made with other settings', async () => {
      const sink = kafkaSink((settings) => makerFor(url)({ ...settings, transactionalId: 'another' }), {
        topic: await topicWith(),
        transactionalId: 'mine',
      })
      await expect(sink.send([eventFor('a', 1)], { signal })).rejects.toThrow(/ONCE_OPTION_INVALID/)
      await sink.close?.()
    })

    it('swallows nothing after a request that failed in part', async () => {
      // A batch of more than this is refused; the other partitions of the same request are written.
      const topic = await topicWith({ 'max.message.bytes': '20000' })
      const sink = sinkFor({ topic })
      const wide = Array.from({ length: 40 }, (_, i) => eventFor(`w${i}`, 1))
      const deep = Array.from({ length: 20 }, (_, i) => eventFor('deep', i + 1, { text: 'x'.repeat(2_000) }))
      const after = Array.from({ length: 40 }, (_, i) => eventFor(`w${i}`, 2))
      for (const events of [[...wide, ...deep], after]) {
        expect(fates(await sink.send(events, { signal }))).toEqual(events.map(() => 'sent'))
      }
      const ids = [...new Set(await idsIn(topic))]
      expect(ids.toSorted()).toEqual([...wide, ...deep, ...after].map(({ id }) => id).toSorted())
      const first = ids.filter((id) => deep.some((event) => event.id === id))
      expect(first).toEqual(deep.map(({ id }) => id))
    })
  })

  describe('a transactional sink', () => {
    it('shows a call’s events at once, or none of them', async () => {
      const topic = await topicWith()
      const transactionalId = fresh()
      const slot = new KafkaProducerSlot(makerFor(url), transactionalId)
      const record = {
        topic,
        key: Buffer.from('a'),
        headers: new Map([[Buffer.from('event-id'), Buffer.from('undone')]]),
      }
      const undone = slot.transaction(signal, async (transaction) => {
        await sendTo(transaction, [record])
        throw new Error('changed my mind')
      })
      await expect(undone).rejects.toThrow('changed my mind')
      await slot.close()
      const events = Array.from({ length: 10 }, (_, i) => eventFor(`a${i}`, 1))
      await sinkFor({ topic, transactionalId }).send(events, { signal })
      expect((await idsIn(topic)).toSorted()).toEqual(events.map(({ id }) => id).toSorted())
      expect(await idsIn(topic, UNCOMMITTED)).toContain('undone')
    })

    it('fences the zombie whose transaction was left open', async () => {
      const topic = await topicWith()
      const transactionalId = fresh()
      // The broker's first producer has the id 0, which a client that does not ask anew would hit by luck.
      await sinkFor({ topic: await topicWith() }).send([eventFor('a', 1)], { signal })
      const zombie = new KafkaProducerSlot(makerFor(url), transactionalId)
      let wake = (): void => {}
      const asleep = new Promise<void>((resolve) => (wake = resolve))
      let written = (): void => {}
      const open = new Promise<void>((resolve) => (written = resolve))
      const late = zombie.transaction(undefined, async (transaction) => {
        const headers = new Map([[Buffer.from('event-id'), Buffer.from('zombie')]])
        await sendTo(transaction, [{ topic, key: Buffer.from('a'), headers }])
        written()
        await asleep
      })
      const fate = late.then(
        () => 'committed',
        (error: unknown) => (isKafkaError(error, 'PRODUCER_FENCED') ? 'fenced' : error),
      )
      await open
      const newcomer = sinkFor({ topic, transactionalId })
      expect(fates(await newcomer.send([eventFor('a', 1)], { signal }))).toEqual(['sent'])
      wake()
      expect(await fate).toBe('fenced')
      await zombie.close()
      expect(await idsIn(topic)).toEqual([eventFor('a', 1).id])
      // And the one that took over goes on.
      expect(fates(await newcomer.send([eventFor('a', 2)], { signal }))).toEqual(['sent'])
      expect(await idsIn(topic)).toEqual([eventFor('a', 1).id, eventFor('a', 2).id])
    })
  })

  it(
    'consumes, transforms and produces: each result once, whatever fails on the way',
    { timeout: 60_000 },
    async () => {
      const [from, to] = [await topicWith(), await topicWith()]
      const inputs: OutgoingEvent[] = Array.from({ length: 300 }, (_, i) => eventFor(`in${i}`, 1))
      await sinkFor({ topic: from }).send(inputs, { signal })
      const groupId = fresh()
      const consumer = new Consumer({ clientId: 'transform', groupId, bootstrapBrokers: [new URL(url).host] })
      const read = { mode: 'committed', fallbackMode: 'earliest', autocommit: false, isolationLevel: 1 } as const
      const errors: unknown[] = []
      let calls = 0
      const worker = kafkaTransform(makerFor(url), {
        transactionalId: fresh(),
        consumer,
        consume: () => consumer.consume({ topics: [from], maxWaitTime: 50, ...read }),
        transform(message) {
          calls++
          if (calls === 3 || calls === 150) throw new Error('no')
          return [{ topic: to, key: message.key, value: message.value, headers: message.headers }]
        },
        onError: (error) => errors.push(error),
      })
      worker.start()
      for (let i = 0; i < 100 && (await recordsOf(url, to)).length < inputs.length; i++) {
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await worker.stop()
      expect((await idsIn(to)).toSorted()).toEqual(inputs.map(({ id }) => id).toSorted())
      expect((await idsIn(to, UNCOMMITTED)).length).toBeGreaterThanOrEqual(inputs.length)
      expect(errors).toHaveLength(2)
      const partitions = [0, 1, 2, 3, 4, 5]
      const committed = await consumer.listCommittedOffsets({ topics: [{ topic: from, partitions }] })
      const ends = await consumer.listOffsets({ topics: [from] })
      expect(committed.get(from)).toEqual(ends.get(from))
      await Promise.resolve(consumer.close(true))
    },
  )
})

await describeLate('relays to Kafka killed at random', { server: 'kafka', postgres: true }, (url) => {
  it('nothing lost, nothing out of order', { timeout: 180_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'kafka', url, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
    } finally {
      await database.drop()
    }
  })
})

await describeLate('a Kafka that is stopped and started again', { server: 'kafka', postgres: true }, () => {
  it('says so, and gets everything in the end', { timeout: 120_000 }, async ({ skip }) => {
    const alone = await startAlone('kafka')
    if ('missing' in alone || !alone.halt) skip('no Kafka that could be halted')
    const server = alone as Halting
    const database = await freshDatabase()
    try {
      const params = { broker: 'kafka', server, database: database.url, events: 1_500, outageMs: 3_000 }
      const result = await brokerOutage({ ...params, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
      expect(result.attempts).toBeLessThan(20)
    } finally {
      await database.drop()
      await server.stop()
    }
  })
})
