import { AckPolicy, jetstream, jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { connect, nanos, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { natsSource, type NatsSourceOptions } from '../../src/broker/nats/source.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { survivesKills } from './support/describe-consumer-chaos.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

describeAlone('what a consumer relies on, NATS', 'nats', (own) => {
  for (const { name, takesServerAway, run } of sourceCases(() => sourceTarget('nats', own.server))) {
    it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('consumers of NATS killed at random', ['postgres', 'nats'], ({ nats }) => {
  survivesKills('nats', nats, 'shared')
})

describeServers('a source for NATS', ['nats'], ({ nats }) => {
  let connection: NatsConnection
  let manager: JetStreamManager
  const stream = `source_${Math.random().toString(36).slice(2)}`
  const warnings: unknown[] = []
  beforeAll(async () => {
    connection = await connect({ servers: nats })
    manager = await jetstreamManager(connection)
    await manager.streams.add({ name: stream, subjects: [`${stream}.>`], max_age: nanos(3_600_000) })
  })
  afterAll(async () => {
    await manager.streams.delete(stream)
    await connection.close()
  })

  async function opened(consumer: string, options: Partial<NatsSourceOptions<{}>> = {}) {
    const source = natsSource(jetstream(connection), { stream, events: {}, ...options })
    const { signal } = new AbortController()
    const positions = { read: async () => new Map() }
    const warn = (error: unknown): void => void warnings.push(error)
    const subscription = await source.open({ consumer, signal, prefetch: 10, positions, warn, advise: warn })
    return { source, subscription }
  }

  it('makes a durable that drops nothing by itself, and says how late its stream delivers again', async () => {
    const { source, subscription } = await opened('made', { ackWait: '7s', subjects: [`${stream}.a`] })
    const { config } = await manager.consumers.info(stream, 'made')
    expect(config).toMatchObject({ ack_policy: 'explicit', ack_wait: nanos(7_000), max_deliver: -1 })
    expect(config.filter_subject).toBe(`${stream}.a`)
    expect(source.redeliversFor).toBe('3600000ms')
    await subscription.close()
  })

  it('takes a durable that is there: its time to acknowledge becomes ours, what loses events is told', async () => {
    const config = { durable_name: 'theirs', ack_policy: AckPolicy.Explicit, max_deliver: 3, ack_wait: nanos(60_000) }
    await manager.consumers.add(stream, config)
    const { subscription } = await opened('theirs', { ackWait: '7s' })
    expect((await manager.consumers.info(stream, 'theirs')).config.ack_wait).toBe(nanos(7_000))
    expect(String(warnings)).toMatch(/max_deliver of the durable 'theirs' is 3/)
    await subscription.close()
  })

  it('refuses what cannot work', async () => {
    await manager.consumers.add(stream, { durable_name: 'careless', ack_policy: AckPolicy.None })
    await expect(opened('careless')).rejects.toThrow(/ONCE_OPTION_INVALID.*explicit acknowledgements/)
    await expect(opened('a.b')).rejects.toThrow(/ONCE_OPTION_INVALID.*set durable/)
    await expect(opened('c', { stream: 'nobody_made_it' })).rejects.toThrow(/ONCE_OPTION_INVALID.*does not exist/)
    const js = jetstream(connection)
    expect(() => natsSource(js, { stream, events: {}, acks: 1 } as never)).toThrow(/unknown option 'acks'/)
    expect(() => natsSource(js, { stream } as never)).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => natsSource({} as never, { stream, events: {} })).toThrow(/ONCE_OPTION_INVALID/)
  })
})
