import { describe, expect, test } from 'vitest'
import { eventOf } from '../consumer/revive.ts'
import { cloudEventJson, type OutgoingEvent } from '../sink/sink.ts'
import { webhookSink } from '../sink/webhook.ts'
import type { StoredLetter } from '../store/dead-letters.ts'
import { eventFor } from '../testing/sink-contract/index.ts'
import { readCloudEvent } from './envelope.ts'
import type { ReceivedEvent } from './source.ts'
import { standardWebhooksSource } from './standard-webhooks.ts'

const SECRET = 'whsec_YSBzZWNyZXQgb2Ygc29tZSBsZW5ndGg='
const BYTES = Uint8Array.of(0, 1, 254, 255)

function eventOfBytes(headers: Readonly<Record<string, string>> = {}): OutgoingEvent {
  const json = JSON.stringify(Buffer.from(BYTES).toString('base64'))
  const more = { json, body: BYTES, data: BYTES, datacontenttype: 'application/octet-stream' }
  return { ...eventFor('a', 1), ...more, headers: { source: 'contract', ...headers } }
}

const read = (body: string | Uint8Array, headers: Record<string, string> = {}): ReturnType<typeof readCloudEvent> =>
  readCloudEvent({ body, headers, place: null, source: 'test' })

describe('an envelope', () => {
  test('brings bytes as bytes, and headers as headers', () => {
    const found = read(cloudEventJson(eventOfBytes({ tenant: 'acme', region: 'eu' })))
    if (typeof found === 'string') throw new Error(found)
    expect(found.event.data).toEqual(BYTES)
    expect(found.tenant).toBe('acme')
    expect(found.event.headers).toEqual({ tenant: 'acme', region: 'eu' })
  })

  test('no header takes the place of an attribute', () => {
    const names = [
      'id',
      'type',
      'subject',
      'time',
      'data',
      'data_base64',
      'specversion',
      'notbefore',
      'datacontenttype',
    ]
    const headers = Object.fromEntries(names.map((name) => [name, 'stolen']))
    const json = cloudEventJson({ ...eventFor('a', 1), headers })
    expect(json).not.toContain('stolen')
  })

  test('in binary mode the content type tells', () => {
    const ce = { 'ce-id': '1', 'ce-source': 's', 'ce-type': 't', 'ce-tenant': 'acme' }
    const dataOf = (body: string | Uint8Array, type?: string): unknown => {
      const found = read(body, type === undefined ? ce : { ...ce, 'content-type': type })
      return typeof found === 'string' ? found : found.event.data
    }
    expect(dataOf('{"a":1}')).toEqual({ a: 1 })
    expect(dataOf('{"a":1}', 'application/json; charset=utf-8')).toEqual({ a: 1 })
    expect(dataOf('{"a":1}', 'application/vnd.x+json')).toEqual({ a: 1 })
    expect(dataOf(BYTES, 'application/x-protobuf')).toEqual(BYTES)
    expect(dataOf(Buffer.from(BYTES), 'application/octet-stream')).toEqual(BYTES)
    expect(dataOf(BYTES)).toBe('the data is not JSON')
  })

  test('data_base64 that is none makes it unreadable', () => {
    const attributes = { specversion: '1.0', id: '1', source: 's', type: 't' }
    for (const wrong of [{ data_base64: 7 }, { data_base64: '=?' }, { data_base64: 'AAEC', data: 1 }]) {
      expect(typeof read(JSON.stringify({ ...attributes, ...wrong }))).toBe('string')
    }
    const empty = read(JSON.stringify({ ...attributes, data_base64: '' }))
    expect(typeof empty === 'string' ? empty : empty.event.data).toEqual(new Uint8Array())
  })

  test('a webhook brings bytes and headers, too', async () => {
    const requests: RequestInit[] = []
    const fetch = async (_: string, init: RequestInit): Promise<Response> => {
      requests.push(init)
      return new Response(null, { status: 204 })
    }
    const sink = webhookSink({ url: 'https://example.com/', secret: SECRET, fetch })
    await sink.send([eventOfBytes({ tenant: 'acme' })], { signal: new AbortController().signal })
    const source = standardWebhooksSource({ secret: SECRET })
    const { headers, body } = requests[0] as { headers: Record<string, string>; body: string }
    const pushed = source.receive({ method: 'POST', headers, body: Buffer.from(body), now: Date.now() })
    if (pushed.kind !== 'delivery') throw new Error(pushed.kind)
    expect((pushed.delivery.event as ReceivedEvent).data).toEqual(BYTES)
    expect(pushed.delivery.tenant).toBe('acme')
  })

  test('a dead letter of bytes is redriven as bytes', () => {
    const letter = { message: '1', source: 's', type: 't', body: cloudEventJson(eventOfBytes()), headers: '{}' }
    const found = eventOf(letter as StoredLetter, null)
    expect('event' in found && (found.event as ReceivedEvent).data).toEqual(BYTES)
  })
})
