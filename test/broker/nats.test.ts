import {
  DiscardPolicy,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type JetStreamManager,
  type StreamConfig,
} from '@nats-io/jetstream'
import { connect, nanos, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { natsSink, type NatsSinkOptions } from '../../src/broker/nats/sink.ts'
import type { OutgoingEvent, Sink } from '../../src/sink/sink.ts'
import { eventFor, sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { brokerOutage } from './support/outage.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

const { signal } = new AbortController()

describeAlone('the sink contract, NATS', 'nats', (own) => {
  for (const { name, run } of sinkContract(() => sinkTarget('nats', own.server))) {
    it(name, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('relays to NATS killed at random', ['postgres', 'nats'], ({ nats }) => {
  it('nothing lost, nothing out of order, nothing twice', { timeout: 120_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'nats', url: nats, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 20_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0, duplicates: 0, duplicatesAllowed: false })
    } finally {
      await database.drop()
    }
  })
})

describeAlone('NATS stopped in mid-run', 'nats', (own) => {
  it('everything arrives after its return, without a tight loop meanwhile', { timeout: 90_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'nats', server: own.server, database: database.url, events: 1_500 }
      const result = await brokerOutage({ ...params, outageMs: 3_000, timeoutMs: 30_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
      expect(result.attempts).toBeGreaterThan(0)
      expect(result.attempts).toBeLessThan(30)
    } finally {
      await database.drop()
    }
  })
})

describeServers('a sink for NATS', ['nats'], ({ nats }) => {
  let connection: NatsConnection
  let manager: JetStreamManager
  const made: string[] = []
  beforeAll(async () => {
    connection = await connect({ servers: nats })
    manager = await jetstreamManager(connection)
  })
  afterAll(async () => {
    for (const name of made) await manager.streams.delete(name)
    await connection.close()
  })

  async function stream(config: Partial<StreamConfig> = {}): Promise<string> {
    const name = `sink_${Math.random().toString(36).slice(2)}`
    await manager.streams.add({ name, subjects: [`${name}.>`], ...config })
    made.push(name)
    return name
  }
  async function opened(options: NatsSinkOptions) {
    const sink = natsSink(jetstream(connection), options)
    return { sink, warnings: ((await sink.open?.()) ?? []).join('\n') }
  }
  const send = (sink: Sink, ...events: OutgoingEvent[]) => sink.send(events, { signal })

  it('declares the duplicate window of its stream, and warns of what weakens it by name', async () => {
    const { sink, warnings } = await opened({ stream: await stream() })
    expect({ proves: sink.proves, dedupes: sink.dedupes }).toEqual({ proves: 'accepted', dedupes: '120000ms' })
    expect(warnings).toMatch(/sync_interval/)
    expect(warnings).toMatch(/num_replicas is 1/)
    expect(warnings).not.toMatch(/storage|duplicate_window|retention|max_age|discard/)
    const weak = await opened({
      stream: await stream({
        storage: StorageType.Memory,
        duplicate_window: nanos(5_000),
        retention: RetentionPolicy.Interest,
        max_age: nanos(60_000),
        max_msgs: 10,
      }),
    })
    expect(weak.sink.dedupes).toBe('5000ms')
    for (const name of [
      'storage is memory',
      'duplicate_window',
      'retention is interest',
      'max_age',
      'discard is old',
    ]) {
      expect(weak.warnings).toContain(name)
    }
  })

  it('proves more where the user says that the servers sync every write', async () => {
    const { sink, warnings } = await opened({ stream: await stream(), syncAlways: true })
    expect(sink.proves).toBe('flushed')
    expect(warnings).not.toMatch(/sync_interval/)
    const memory = await opened({ stream: await stream({ storage: StorageType.Memory }), syncAlways: true })
    expect(memory.sink.proves).toBe('accepted')
  })

  it('refuses a stream that is not there, that takes other subjects, or that acknowledges nothing', async () => {
    await expect(opened({ stream: 'nobody_made_it' })).rejects.toThrow(/ONCE_OPTION_INVALID.*does not exist/)
    const elsewhere = await stream({ subjects: [`else_${Date.now()}.*`] })
    await expect(opened({ stream: elsewhere })).rejects.toThrow(/ONCE_OPTION_INVALID.*set subject/)
    const silent = await stream({ no_ack: true })
    await expect(opened({ stream: silent })).rejects.toThrow(/ONCE_OPTION_INVALID.*no_ack/)
    const js = jetstream(connection)
    expect(() => natsSink(js, { stream: 'a.b' })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => natsSink(js, { stream: 'a', subject: 'b.>' })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => natsSink(js, { stream: 'a', sync: true } as never)).toThrow(/unknown option 'sync'/)
    expect(() => natsSink({} as never, { stream: 'a' })).toThrow(/ONCE_OPTION_INVALID/)
  })

  it('holds a subject that cannot be, or that the stream does not take, against its event alone', async () => {
    const name = await stream({ subjects: [`s_${Date.now()}.*`] })
    const [prefix = ''] = (await manager.streams.info(name)).config.subjects[0]?.split('.') ?? []
    const subject = (event: OutgoingEvent): string =>
      ({ spaced: 'a b', foreign: 'nobody.takes.it' })[event.subject] ?? `${prefix}.${event.subject}`
    const { sink } = await opened({ stream: name, subject })
    const verdicts = await send(sink, eventFor('spaced', 1), eventFor('foreign', 1), eventFor('fine', 1))
    expect(verdicts.map((verdict) => (verdict.kind === 'sent' ? 'sent' : verdict.retryable))).toEqual([
      false,
      true,
      'sent',
    ])
  })

  it('waits while the stream is full, and holds what one subject or message may not against that event', async () => {
    const full = await opened({ stream: await stream({ max_msgs: 1, discard: DiscardPolicy.New }) })
    await send(full.sink, eventFor('a', 1))
    await expect(send(full.sink, eventFor('b', 1))).rejects.toThrow(/maximum messages/)
    const small = await opened({ stream: await stream({ max_msg_size: 1_000 }) })
    const verdicts = await send(small.sink, eventFor('a', 1, { text: 'x'.repeat(2_000) }), eventFor('b', 1))
    expect(verdicts).toMatchObject([{ kind: 'failed', retryable: false }, { kind: 'sent' }])
  })

  it('sends nothing once it is given up', async () => {
    const name = await stream()
    const { sink } = await opened({ stream: name })
    const over = AbortSignal.abort(new Error('given up'))
    await expect(sink.send([eventFor('a', 1)], { signal: over })).rejects.toThrow('given up')
    expect((await manager.streams.info(name)).state.messages).toBe(0)
  })
})
