import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Admin } from '@platformatic/kafka'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, isOnceError, type Consumer, type Signal } from '../../src/index.ts'
import { kafkaSource } from '../../src/broker/kafka/source.ts'
import { natsSource } from '../../src/broker/nats/source.ts'
import type { EventsOf, PulledSource } from '../../src/source/source.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { event } from '../../src/outbox/event.ts'
import { eventFor } from '../../src/testing/sink-contract/index.ts'
import { brokerNamed, type BrokerPlace } from './support/broker.ts'
import { describeLate } from './support/describe-late.ts'
import { describeServers } from './support/describe-broker.ts'
import { makeTopic, readerFor } from './support/kafka.ts'

const type = eventFor('a', 1).type
const events = { [type]: event<{ n: number }>(() => '') }
type Source = PulledSource<EventsOf<typeof events>>

interface Place {
  readonly there: BrokerPlace
  source(recreated: 'stop' | 'begin'): Source
  /** Deleted, and made again by the same name. */
  recreate(): Promise<void>
  close(): Promise<unknown>
}

const OLD = 300
const NEW = 500
const { signal } = new AbortController()

function cases(open: () => Promise<Place>): void {
  const ends: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  async function world() {
    const place = await open()
    ends.push(() => place.close())
    const signals: Signal[] = []
    const store = memoryStore()
    const observe = (signalled: Signal): void => void signals.push(signalled)
    const once = effectivelyOnce({ namespace: 'n', store, guard: 'off', sweep: false, observe })
    ends.push(() => once.close())
    const applied = new Set<string>()
    const consumer = (recreated: 'stop' | 'begin'): Consumer =>
      once.consumer(
        'reader',
        { from: place.source(recreated), horizon: 'warn' },
        { [type]: async ({ id }: { id: string }) => void applied.add(id) },
      )
    const send = async (name: string, count: number): Promise<void> => {
      const some = Array.from({ length: count }, (_, i) => eventFor(`${name}${i % 12}`, 1 + Math.floor(i / 12)))
      const verdicts = await place.there.sink().send(some, { signal })
      expect(verdicts.every(({ kind }) => kind === 'sent')).toBe(true)
    }
    const has = async (count: number): Promise<void> => {
      await expect.poll(() => applied.size, { timeout: 30_000 }).toBe(count)
    }
    const told = (): boolean =>
      signals.some((one) => one.kind === 'troubled' && isOnceError(one.error, 'ONCE_SOURCE_RECREATED'))
    return { place, consumer, send, has, applied, told }
  }

  it('nothing is read of a new one by the same name, and that is told; unless it is to begin', async () => {
    const { place, consumer, send, has, applied } = await world()
    await send('old', OLD)
    const first = await consumer('stop').start()
    await has(OLD)
    await first.stop()
    // Where it was, as long as it is the same.
    const again = await consumer('stop').start()
    await again.stop()
    await place.recreate()
    await send('new', NEW)
    await expect(consumer('stop').start()).rejects.toThrow(/ONCE_SOURCE_RECREATED/)
    expect(applied.size).toBe(OLD)
    for (let round = 0; round < 2; round++) {
      const beginning = await consumer('begin').start()
      await has(OLD + NEW)
      await beginning.stop()
    }
    // It is the known one from now on.
    const later = await consumer('stop').start()
    await later.stop()
  }, 90_000)

  it('is noticed while it is read', async () => {
    const { place, consumer, send, has, applied, told } = await world()
    await send('old', OLD)
    const running = await consumer('stop').start()
    await has(OLD)
    await place.recreate()
    await send('new', NEW)
    await expect.poll(told, { timeout: 30_000 }).toBe(true)
    expect(applied.size).toBe(OLD)
    await running.stop()
    const beginning = await consumer('begin').start()
    await has(OLD + NEW)
    await place.recreate()
    await send('newest', NEW)
    await has(OLD + NEW + NEW)
    await beginning.stop()
  }, 120_000)
}

let places = 0

await describeLate('a Kafka topic that was deleted and made again', { server: 'kafka' }, (url) => {
  cases(async () => {
    const place = `recreated_${process.pid}_${places++}`
    const there = await (await brokerNamed('kafka')).open({ url, place, make: true })
    const admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host], retries: 10 })
    return {
      there,
      source: (recreated) => kafkaSource(readerFor(url), { topic: place, events, recreated, sessionTimeout: '2s' }),
      async recreate() {
        await admin.deleteTopics({ topics: [place] })
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        await makeTopic(admin, place)
      },
      close: () => Promise.all([there.close(), admin.close()]),
    }
  })
})

describeServers('a NATS stream that was deleted and made again', ['nats'], ({ nats }) => {
  cases(async () => {
    const place = `recreated_${process.pid}_${places++}`
    const there = await (await brokerNamed('nats')).open({ url: nats, place, make: true })
    const connection = await connect({ servers: nats })
    const js = jetstream(connection)
    return {
      there,
      source: (recreated) => natsSource(js, { stream: place, events, recreated, ackWait: '1s', singleActive: true }),
      async recreate() {
        const { streams } = await jetstreamManager(connection)
        await streams.delete(place)
        await streams.add({ name: place, subjects: [`${place}.>`] })
      },
      close: async () => {
        await there.close()
        await connection.close()
      },
    }
  })
})
