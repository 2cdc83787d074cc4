import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { eventFor, sinkContract, type Received, type SinkTarget } from '../testing/sink-contract/index.ts'
import { inProcessSink } from './in-process.ts'
import { traceHeaders, type OutgoingEvent, type Verdict } from './sink.ts'
import { webhookSink } from './webhook.ts'

const SECRET = `whsec_${Buffer.from('a secret of some length').toString('base64')}`
const { signal } = new AbortController()

interface Request {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver of webhooks, answering what it is told to. */
class Receiver {
  readonly requests: Request[] = []
  status: (request: Request) => number = () => 204
  delayMs = 0
  port = 0
  #server: Server | undefined

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook?token=1`
  }

  async start(): Promise<this> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const seen = { headers: request.headers, body: Buffer.concat(chunks).toString() }
        this.requests.push(seen)
        setTimeout(() => response.writeHead(this.status(seen)).end('thanks'), this.delayMs)
      })
    })
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
    this.#server = server
    return this
  }

  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    server?.closeAllConnections()
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
  }
}

async function webhookTarget(): Promise<SinkTarget> {
  const receiver = await new Receiver().start()
  return {
    sink: webhookSink({ url: receiver.url, secret: SECRET }),
    received: async () =>
      receiver.requests.map(({ headers, body }) => {
        const { id, source, type, subject, time, data } = JSON.parse(body) as Omit<Received, 'brokerId'>
        const brokerId = String(headers['idempotency-key'])
        return { id, source, type, subject, time, data, brokerId, traceparent: String(headers['traceparent']) }
      }),
    outage: { begin: () => receiver.stop(), end: async () => void (await receiver.start()) },
    close: () => receiver.stop(),
  }
}

async function inProcessTarget(): Promise<SinkTarget> {
  const seen: Received[] = []
  return {
    sink: inProcessSink(({ id, source, type, subject, time, data, brokerId, traceparent }) =>
      seen.push({ id, source, type, subject, time, data, brokerId, traceparent }),
    ),
    received: async () => seen,
    close: async () => {},
  }
}

for (const [name, open] of Object.entries({ webhook: webhookTarget, 'in-process': inProcessTarget })) {
  describe(`the sink contract, ${name}`, () => {
    for (const { name: title, run } of sinkContract(open)) {
      it(title, () => expect(run()).resolves.toBeUndefined())
    }
  })
}

describe('a webhook', () => {
  let receiver = new Receiver()
  afterEach(() => receiver.stop())
  const kinds = (verdicts: readonly Verdict[]) =>
    verdicts.map((verdict) => (verdict.kind === 'sent' ? 'sent' : verdict.retryable))

  it.each([
    undefined,
    {},
    { url: 'http://127.0.0.1/' },
    { url: 'http://127.0.0.1/', secret: null },
    { url: 'http://127.0.0.1/', secret: [] },
    { url: 'http://ann:pass@127.0.0.1/', secret: SECRET },
    { url: 'http://127.0.0.1/', secret: SECRET, headers: { 'no name': 'x' } },
    { url: 'http://127.0.0.1/', secret: SECRET, headers: { name: 'two\nlines' } },
  ])('refuses what could never be sent: %j', (options) => {
    expect(() => webhookSink(options as never)).toThrow(/ONCE_OPTION_INVALID/)
  })

  it('is signed with every secret, over id, time and body', async () => {
    receiver = await new Receiver().start()
    const other = 'another secret, plain'
    await webhookSink({ url: receiver.url, secret: [SECRET, other] }).send([eventFor('a', 1)], { signal })
    const [{ headers, body }] = receiver.requests as [Request]
    const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
    const expected = [Buffer.from('a secret of some length'), Buffer.from(other)].map(
      (key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
    )
    expect(headers['webhook-signature']).toBe(expected.join(' '))
    expect(headers['webhook-id']).toBe(eventFor('a', 1).id)
    expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(10)
    expect(headers['content-type']).toContain('application/cloudevents+json')
  })

  it.each([
    { Authorization: 'Bearer x', 'Content-Type': 'text/plain' },
    new Headers({ Authorization: 'Bearer x', 'Content-Type': 'text/plain' }) as never,
  ])('has headers of the user, which do not change its own', async (headers) => {
    receiver = await new Receiver().start()
    await webhookSink({ url: receiver.url, secret: SECRET, headers }).send([eventFor('a', 1)], { signal })
    const [request] = receiver.requests as [Request]
    expect(request.headers.authorization).toBe('Bearer x')
    expect(request.headers['content-type']).toBe('application/cloudevents+json; charset=utf-8')
  })

  it('is sent without the trace headers that cannot be sent', async () => {
    receiver = await new Receiver().start()
    const headers = { tracestate: 'żółw', baggage: '\u0001' }
    const event = { ...eventFor('a', 1), traceparent: 'two\nlines', headers }
    const verdicts = await webhookSink({ url: receiver.url, secret: SECRET }).send([event], { signal })
    expect(verdicts).toEqual([{ kind: 'sent' }])
    expect(JSON.parse(receiver.requests[0]?.body ?? '')).toMatchObject({ traceparent: 'two\nlines', ...headers })
    expect(Object.keys(receiver.requests[0]?.headers ?? {})).not.toContain('traceparent')
  })

  it('tells refusals that pass from those that stay', async () => {
    receiver = await new Receiver().start()
    const statuses = [200, 202, 301, 400, 401, 403, 404, 408, 409, 410, 413, 421, 422, 425, 429, 500, 501, 503]
    receiver.status = ({ body }) =>
      statuses[(JSON.parse(body) as OutgoingEvent & { data: { n: number } }).data.n] as number
    const events = statuses.map((_, n) => eventFor('s', n))
    const told = async (finalStatuses?: readonly number[]): Promise<(number | undefined)[]> => {
      const options = finalStatuses === undefined ? {} : { finalStatuses }
      const verdicts = await webhookSink({ url: receiver.url, secret: SECRET, ...options }).send(events, { signal })
      expect(kinds(verdicts).slice(0, 2)).toEqual(['sent', 'sent'])
      return statuses.filter((_, n) => verdicts[n]?.kind === 'failed' && !verdicts[n].retryable)
    }
    // Everything else may be the word of somebody in between.
    expect(await told()).toEqual([400, 410, 422])
    expect(await told([404, 413])).toEqual([404, 413])
    expect(await told([])).toEqual([])
    for (const finalStatuses of [[200], [99], [600], [4.5], ['410'], 410, null]) {
      const options = { url: receiver.url, secret: SECRET, finalStatuses } as never
      expect(() => webhookSink(options)).toThrow(/ONCE_OPTION_INVALID/)
    }
  })

  it('is the receiver’s trouble, not the events’, when nobody is served', async () => {
    receiver = await new Receiver().start()
    receiver.status = () => 503
    const sink = webhookSink({ url: receiver.url, secret: SECRET })
    await expect(sink.send([eventFor('a', 1), eventFor('b', 1)], { signal })).rejects.toThrow(/503/)
    receiver.status = ({ body }) => (body.includes('"b"') ? 503 : 200)
    expect(kinds(await sink.send([eventFor('a', 1), eventFor('b', 1)], { signal }))).toEqual(['sent', true])
    // A load balancer without a backend.
    receiver.status = () => 404
    await expect(sink.send([eventFor('a', 1), eventFor('b', 1)], { signal })).rejects.toThrow(/404/)
  })

  it.each([
    ['comes later', 'ok', true],
    ['never ends', 'x'.repeat(32 * 1024), false],
    ['breaks off', undefined, false],
  ])('an answer whose body %s is an answer', async (_, chunk, whole) => {
    let connections = 0
    const server = createServer((request, response) => {
      request.resume()
      response.writeHead(200, chunk === undefined ? { 'content-length': '100' } : {}).flushHeaders()
      const end = (): unknown => (chunk === undefined ? response.destroy() : response.end(chunk))
      if (chunk === undefined || whole) setTimeout(end, 5)
      else response.on('drain', () => response.write(chunk)).write(chunk.repeat(4))
    })
    server.on('connection', () => connections++)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const sink = webhookSink({ url, secret: SECRET })
    for (let n = 1; n <= 10; n++) {
      expect(kinds(await sink.send([eventFor('a', n)], { signal }))).toEqual(['sent'])
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    server.closeAllConnections()
    server.close()
    if (whole) expect(connections).toBeLessThan(4)
  })

  it('has a time limit, and a limit of requests at a time', async () => {
    receiver = await new Receiver().start()
    receiver.delayMs = 300
    const sink = webhookSink({ url: receiver.url, secret: SECRET, timeout: '50ms' })
    await expect(sink.send([eventFor('a', 1)], { signal })).rejects.toThrow(/timeout/i)
    let open = 0
    let most = 0
    const counted = webhookSink({
      url: receiver.url,
      secret: SECRET,
      concurrency: 3,
      fetch: async () => {
        most = Math.max(most, ++open)
        await new Promise((resolve) => setTimeout(resolve, 5))
        open--
        return new Response(null, { status: 204 })
      },
    })
    await counted.send(
      Array.from({ length: 20 }, (_, i) => eventFor(`c${i}`, 1)),
      { signal },
    )
    expect(most).toBe(3)
  })

  it('needs an address and a secret', async () => {
    receiver = new Receiver()
    expect(() => webhookSink({ url: 'ftp://x', secret: SECRET })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => webhookSink({ url: 'https://x', secret: 'short' })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => webhookSink({ url: 'https://x', secret: [] })).toThrow(/ONCE_OPTION_INVALID/)
    expect(() => webhookSink({ url: 'https://x', secret: SECRET, concurrency: 0 })).toThrow(/ONCE_OPTION_INVALID/)
    expect(webhookSink({ url: 'https://x/hook?token=1', secret: SECRET }).name).toBe('webhook https://x/hook')
  })
})

describe('the in-process sink', () => {
  it('sends nothing of an aggregate after a failure, and the others', async () => {
    const seen: string[] = []
    const sink = inProcessSink((event) => {
      if (event.subject === 'bad') throw new Error('no')
      seen.push(event.subject)
    })
    const verdicts = await sink.send([eventFor('bad', 1), eventFor('bad', 2), eventFor('good', 1)], { signal })
    expect(verdicts.map(({ kind }) => kind)).toEqual(['failed', 'failed', 'sent'])
    expect(seen).toEqual(['good'])
  })
})

it("a tracer's headers travel beside the event, and no others do", () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const headers = { tracestate: 'a=1', baggage: 'user=7', tenant: 'blue' }
  expect(traceHeaders({ ...eventFor('a', 1), traceparent, headers })).toEqual({
    traceparent,
    tracestate: 'a=1',
    baggage: 'user=7',
  })
  expect(traceHeaders({ ...eventFor('a', 1), traceparent: undefined, headers: {} })).toEqual({})
})

it.each(['a\nb', 'ä€'])('a webhook is sent without a trace header that no request can carry: %j', async (value) => {
  const receiver = await new Receiver().start()
  try {
    const sink = webhookSink({ url: receiver.url, secret: SECRET })
    const headers = { traceparent: value, tracestate: value, baggage: value }
    const verdicts = await sink.send([{ ...eventFor('a', 1), traceparent: value, headers }], { signal })
    expect(verdicts).toEqual([{ kind: 'sent' }])
    expect(receiver.requests).toHaveLength(1)
  } finally {
    await receiver.stop()
  }
})
