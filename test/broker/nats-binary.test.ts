import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers as newHeaders, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce } from '../../src/index.ts'
import { natsSink, type NatsSinkOptions } from '../../src/broker/nats/sink.ts'
import { natsSource } from '../../src/broker/nats/source.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeServers } from './support/describe-broker.ts'
import { BYTES, events, TRACE } from './support/binary-events.ts'
import { until } from '../support/until.ts'

describeServers('binary mode of NATS', ['nats'], ({ nats }) => {
  let connection: NatsConnection
  let places = 0
  const made: string[] = []
  beforeAll(async () => {
    connection = await connect({ servers: nats })
  })
  afterAll(async () => {
    const manager = await jetstreamManager(connection)
    for (const stream of made) await manager.streams.delete(stream)
    await connection.close()
  })

  async function published(options: Partial<NatsSinkOptions>) {
    const stream = `binary_${process.pid}_${places++}`
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: stream, subjects: [`${stream}.>`] })
    made.push(stream)
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, guard: 'off', sweep: false })
    const more = { tenant: 'acme', headers: { shop: '"żółw" 50%' }, traceparent: TRACE, tracestate: 'a=1' }
    await once.run({ scope: 's', key: stream, input: null }, async ({ publish }) => {
      await publish('charge.made', { id: 'a' }, more)
      await publish('note.made', 'a text', more)
      await publish('scan.made', BYTES, more)
    })
    const to = natsSink(jetstream(connection), { stream, ...options })
    expect(await once.relay({ to }).drain()).toBe(3)
    return { once, stream, manager }
  }

  it('attributes are headers, and the payload is the data', async () => {
    const { once, stream, manager } = await published({ mode: 'binary', headers: newHeaders })
    const found = new Map<string | undefined, { header: (name: string) => string | undefined; data: Uint8Array }>()
    for (const seq of [1, 2, 3]) {
      const message = await manager.streams.getMessage(stream, { seq })
      if (message)
        found.set(message.header.get('ce-type'), { header: (of) => message.header.get(of), data: message.data })
    }
    const charge = found.get('charge.made')
    const names = ['ce-specversion', 'ce-source', 'ce-subject', 'ce-tenant', 'ce-shop', 'content-type', 'traceparent']
    expect(names.map((name) => charge?.header(name))).toEqual([
      '1.0',
      'shop',
      'a',
      'acme',
      '%22%C5%BC%C3%B3%C5%82w%22%2050%25',
      'application/json',
      TRACE,
    ])
    expect(charge?.header('Nats-Msg-Id')).toBe(charge?.header('ce-id'))
    expect(Buffer.from(charge?.data ?? []).toString()).toBe('{"id":"a"}')
    expect(found.get('scan.made')?.header('ce-datacontenttype')).toBe('image/png')
    expect(new Uint8Array(found.get('scan.made')?.data ?? [])).toEqual(BYTES)
    await once.close()
  })

  it.each([{ mode: 'binary', headers: newHeaders }, { mode: 'structured' }] as const)(
    'our source reads $mode mode',
    async (options) => {
      const { once, stream } = await published(options)
      const seen = new Map<string, { data: unknown }>()
      const take = async (got: { type: string; data: unknown }): Promise<void> => {
        seen.set(got.type, got)
      }
      const from = natsSource(jetstream(connection), { stream, events })
      const handlers = { 'charge.made': take, 'note.made': take, 'scan.made': take }
      const consumer = once.consumer(`reader_${stream}`, { from }, handlers)
      await consumer.start()
      await until(() => seen.size === 3)
      const headers = { tenant: 'acme', shop: '"żółw" 50%', tracestate: 'a=1' }
      for (const got of seen.values()) expect(got).toMatchObject({ source: 'shop', traceparent: TRACE, headers })
      expect([...seen.values()].map(({ data }) => data)).toEqual(
        expect.arrayContaining([{ id: 'a' }, 'a text', BYTES]) as never,
      )
      await consumer.stop()
      await once.close()
    },
  )

  it('refuses another mode, and binary mode without headers', () => {
    const js = jetstream(connection)
    expect(() => natsSink(js, { stream: 's', mode: 'other' as never })).toThrow(/ONCE_OPTION_INVALID.*mode/)
    expect(() => natsSink(js, { stream: 's', mode: 'binary' })).toThrow(/ONCE_OPTION_INVALID.*headers/)
  })
})
