import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { EVENT_BYTES_MAX } from '../limits.ts'
import { cloudEventJson } from '../sink/sink.ts'
import type { StoredEvent } from '../store/outbox.ts'
import type { EventRow } from '../store/store.ts'
import { event } from './event.ts'
import type { Trace } from '../observe/tracing.ts'
import { Outgoing } from './outgoing.ts'
import { Publisher, type PublishOptions } from './publisher.ts'

const RESERVED = ['id', 'source', 'type', 'subject', 'time', 'specversion', 'data', 'data_base64', 'datacontenttype', 'traceparent', 'previous', 'notbefore', 'tenant', 'partitionkey', 'tracestate', 'baggage'] // prettier-ignore
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

const events = {
  'any.made': event<unknown>(() => 'a'),
  'named.made': event<string>((name) => name),
  'checked.made': event(z.object({ id: z.number(), at: z.string().default('now') }), ({ id }) => String(id)),
  'later.made': event(
    z.object({ id: z.number() }).refine(async ({ id }) => id > 0, 'too small'),
    ({ id }) => `${id}`,
  ),
  'bytes.made': event<Uint8Array>(() => 'a'),
  'encoded.made': event<{ id: number }>(({ id }) => `${id}`, {
    contentType: 'application/x-id',
    encode: ({ id }) => new Uint8Array([id]),
  }),
  'text.encoded': event<string>(() => 'a', { encode: (text) => text as never }),
  'ordered.made': event<{ id: string }>(({ id }) => id, { ordered: true }),
}

function publisher(trace?: Trace): Publisher {
  return new Publisher(events, { name: 'here', no: 0 }, (ordinal) => `id${ordinal}`, trace)
}

async function rowOf(type: string, data: unknown, options?: PublishOptions, ambient?: Trace): Promise<EventRow> {
  const made = publisher(ambient)
  await made.publish(type, data, options)
  return (await made.take())[0] as EventRow
}

/** As a sink sees it. */
function sent(row: EventRow): Outgoing {
  const stored: StoredEvent = { ...row, seq: 1, segment: 1, at: 0 }
  return new Outgoing(stored, JSON.parse(row.headers) as Record<string, string>, 'there', 1)
}

describe('publish', () => {
  const circular: Record<string, unknown> = {}
  circular['self'] = circular

  it.each<[string, string, unknown, PublishOptions?]>([
    ['ONCE_EVENT_UNKNOWN', 'nobody.knows', {}],
    ['ONCE_EVENT_UNKNOWN', 'toString', {}],
    ['ONCE_EVENT_UNKNOWN', undefined as never, {}],
    ['ONCE_EVENT_UNKNOWN', 7 as never, {}],
    ['ONCE_EVENT_INVALID', 'any.made', 1, null as never],
    ['ONCE_EVENT_INVALID', 'any.made', 1, 'tomorrow' as never],
    ['ONCE_EVENT_INVALID', 'any.made', 1, { notbefore: new Date() } as never],
    ['ONCE_EVENT_INVALID', 'any.made', circular],
    ['ONCE_EVENT_INVALID', 'any.made', { big: 1n }],
    ['ONCE_EVENT_INVALID', 'any.made', undefined],
    ['ONCE_EVENT_INVALID', 'any.made', () => {}],
    ['ONCE_EVENT_INVALID', 'any.made', { text: 'a\0b' }],
    ['ONCE_EVENT_INVALID', 'any.made', { text: 'half \ud83d' }],
    ['ONCE_EVENT_INVALID', 'named.made', ''],
    ['ONCE_EVENT_INVALID', 'named.made', 7],
    ['ONCE_EVENT_INVALID', 'named.made', 'x'.repeat(256)],
    ['ONCE_EVENT_INVALID', 'named.made', 'half \udc00'],
    ['ONCE_EVENT_INVALID', 'checked.made', { id: 'seven' }],
    ['ONCE_EVENT_INVALID', 'later.made', { id: -1 }],
    ['ONCE_EVENT_INVALID', 'text.encoded', 'not bytes'],
    ['ONCE_EVENT_INVALID', 'any.made', 1, { notBefore: new Date(Number.NaN) }],
    ['ONCE_EVENT_INVALID', 'any.made', 1, { notBefore: 'tomorrow' as never }],
    ['ONCE_EVENT_INVALID', 'any.made', 1, { traceparent: 'me' }],
    ...[
      { tenant: '' },
      { tenant: 7 as never },
      { tenant: 'x'.repeat(256) },
      { partitionKey: '' },
      { partitionKey: 'a\0b' },
      { headers: 'region=eu' as never },
      { headers: [] as never },
      { headers: null as never },
      // These have no properties, so their headers would be lost.
      { headers: new Map([['region', 'eu']]) as never },
      { headers: new Headers({ region: 'eu' }) as never },
      { headers: { region: 7 as never } },
      { headers: { region: 'half \ud83d' } },
      { headers: { Region: 'eu' } },
      { headers: { 'the region': 'eu' } },
      { headers: { '': 'eu' } },
      { headers: { ['x'.repeat(65)]: 'eu' } },
      { headers: JSON.parse('{"__proto__":"x"}') as Record<string, string> },
      { headers: { text: 'x'.repeat(8 * 1024) } },
      { headers: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`h${n}`, ''])) },
      ...RESERVED.map((name) => ({ headers: { [name]: 'x' } })),
    ].map((options): [string, string, unknown, PublishOptions] => [
      'ONCE_EVENT_INVALID',
      'any.made',
      1,
      options as PublishOptions,
    ]),
    ['ONCE_EVENT_TOO_LARGE', 'any.made', 'x'.repeat(EVENT_BYTES_MAX)],
    ['ONCE_EVENT_TOO_LARGE', 'bytes.made', new Uint8Array(EVENT_BYTES_MAX + 1)],
  ])('%s: %s', async (code, type, data, options) => {
    const made = publisher()
    await expect(made.publish(type, data, options)).rejects.toMatchObject({ code })
    // Also when nobody awaited it.
    await expect((async () => made.take())()).rejects.toMatchObject({ code })
  })

  it('takes what the schema makes of the data', async () => {
    expect(JSON.parse((await rowOf('checked.made', { id: 7 })).payload)).toEqual({ id: 7, at: 'now' })
    expect((await rowOf('later.made', { id: 7 })).aggregateId).toBe('7')
  })

  it('takes text that only looks like what cannot be stored', async () => {
    for (const text of ['\\u0000', '\\\\ud800', 'żółw 🐢']) {
      expect(sent(await rowOf('any.made', { text })).data).toEqual({ text })
    }
  })

  it('carries the trace: its own, or that of the request, never nonsense', async () => {
    const other = TRACE.replace('b7ad', 'c7ad')
    expect(sent(await rowOf('any.made', 1, { traceparent: TRACE }, { traceparent: other })).traceparent).toBe(TRACE)
    expect(sent(await rowOf('any.made', 1, {}, { traceparent: TRACE })).traceparent).toBe(TRACE)
    expect(sent(await rowOf('any.made', 1, {}, { traceparent: 'nonsense' })).traceparent).toBeUndefined()
  })

  it('carries tracestate with the parent it belongs to, and baggage where a caller said so', async () => {
    const other = TRACE.replace('b7ad', 'c7ad')
    const of = async (options: PublishOptions, ambient?: Trace): Promise<unknown> => {
      const { traceparent, tracestate, baggage } = sent(await rowOf('any.made', 1, options, ambient)).headers
      return [traceparent, tracestate, baggage]
    }
    const ambient = { traceparent: TRACE, tracestate: 'a=1', baggage: 'user=ada' }
    expect(await of({}, ambient)).toEqual([TRACE, 'a=1', undefined])
    expect(await of({ tracestate: 'b=2', baggage: 'plan=gold' }, ambient)).toEqual([TRACE, 'b=2', 'plan=gold'])
    expect(await of({ traceparent: other }, ambient)).toEqual([other, undefined, undefined])
    expect(await of({}, { tracestate: 'a=1' })).toEqual([undefined, undefined, undefined])
    expect(await of({}, { traceparent: TRACE, tracestate: 'ä' })).toEqual([TRACE, undefined, undefined])
    for (const bad of [
      { tracestate: '' },
      { tracestate: 'x'.repeat(513) },
      { baggage: 'a=\n' },
      { baggage: 4 as never },
    ]) {
      await expect(rowOf('any.made', 1, bad)).rejects.toThrow(/ONCE_EVENT_INVALID/)
    }
  })

  it('carries bytes as they are', async () => {
    const bytes = new Uint8Array([0, 1, 254, 255])
    const plain = sent(await rowOf('bytes.made', bytes))
    expect({ type: plain.datacontenttype, data: plain.data, body: plain.body }).toEqual({
      type: 'application/octet-stream',
      data: bytes,
      body: bytes,
    })
    const encoded = sent(await rowOf('encoded.made', { id: 9 }))
    expect([encoded.datacontenttype, encoded.body]).toEqual(['application/x-id', new Uint8Array([9])])
    const json = sent(await rowOf('any.made', { a: 1 }))
    expect([json.datacontenttype, json.body, json.data]).toEqual(['application/json', '{"a":1}', { a: 1 }])
  })

  it('carries JSON of plain SQL, also where its headers say that it is JSON', async () => {
    for (const type of ['application/json', 'application/vnd.acme+json']) {
      const row = { ...(await rowOf('any.made', 1)), payload: '{"a":1}', headers: `{"datacontenttype":"${type}"}` }
      const { datacontenttype, data, body } = sent(row)
      expect({ datacontenttype, data, body }).toEqual({ datacontenttype: type, data: { a: 1 }, body: '{"a":1}' })
      expect(JSON.parse(cloudEventJson(sent(row)))).toMatchObject({ datacontenttype: type, data: { a: 1 } })
    }
  })

  it('quotes no more of a long header than a line holds', async () => {
    const headers = { ['x'.repeat(5_000)]: 'eu' }
    await expect(rowOf('any.made', 1, { headers })).rejects.toThrow(`the header '${'x'.repeat(80)}' of 'any.made'`)
  })

  it('carries a tenant, a partition key and headers of its own', async () => {
    const headers = { region: 'eu', 'x-trace.id_7': 'żółw 🐢' }
    const event = sent(await rowOf('any.made', 1, { tenant: 'acme', partitionKey: 'p7', headers }))
    expect(event.headers).toEqual({ source: 'here', tenant: 'acme', partitionkey: 'p7', ...headers })
    const json = JSON.parse(cloudEventJson(event)) as Record<string, unknown>
    expect(json).toMatchObject({ source: 'here', tenant: 'acme', partitionkey: 'p7', ...headers, data: 1 })
    const full = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`h${n}`, 'x'.repeat(200)]))
    expect(sent(await rowOf('any.made', 1, { headers: full })).headers).toMatchObject(full)
  })

  it.each(['tenant', 'partitionKey', 'tracestate', 'baggage'])(
    'names the option instead of a header: %s',
    async (option) => {
      const headers = { [option.toLowerCase()]: 'x' }
      await expect(rowOf('any.made', 1, { headers })).rejects.toThrow(`is set by the option ${option}`)
    },
  )

  it('asks the store for the event before an ordered one', async () => {
    expect(JSON.parse((await rowOf('ordered.made', { id: 'a' })).headers)).toEqual({ source: 'here', previous: null })
  })
})

describe('event', () => {
  it.each([
    [[]],
    [['text']],
    [[{}, () => 'a']],
    [[() => 'a', { order: true }]],
    [[() => 'a', { ordered: 'yes' }]],
    [[() => 'a', { contentType: 'json' }]],
    [[() => 'a', { encode: 1 }]],
  ])('refuses %j', (given: unknown[]) => {
    expect(() => (event as (...args: unknown[]) => unknown)(...given)).toThrow(/ONCE_OPTION_INVALID/)
  })
})
