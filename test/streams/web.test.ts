import { describe, expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { effectivelyOnce, final } from '../../src/index.ts'
import type { OnceInstance } from '../../src/once/once.ts'
import { MemoryDatabase } from '../../src/store/memory/database/database.ts'
import type { MemoryTx } from '../../src/store/memory/database/memory-tx.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import type { StreamOperation } from '../../src/operation/types.ts'

const encoder = new TextEncoder()
const SSE = { 'content-type': 'text/event-stream' }
const NDJSON = { 'content-type': 'application/x-ndjson' }
const RECORD = { streams: 'record', lease: '1s' } as const
type Op = StreamOperation<MemoryTx, {}>

function open(database = new MemoryDatabase()) {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore({ database }), guard: 'off', sweep: false })
  return { once, database, idempotent: idempotency(once, { scope: 'global', onError: () => {} }) }
}

const post = (key: string, headers: Record<string, string> = {}, body = '{}'): Request =>
  new Request('http://x/answers', {
    method: 'POST',
    body,
    headers: { 'idempotency-key': key, 'content-type': 'application/json', ...headers },
  })

/** A body that a test feeds. */
function fed() {
  let controller!: ReadableStreamDefaultController<Uint8Array>
  const body = new ReadableStream<Uint8Array>({ start: (made) => void (controller = made) })
  return {
    body,
    write: (part: string | Uint8Array) => controller.enqueue(typeof part === 'string' ? encoder.encode(part) : part),
    end: () => controller.close(),
    fail: (error: unknown) => controller.error(error),
  }
}

/** Reads a response piece by piece. */
function reading(response: Response) {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  let text = ''
  return {
    get text() {
      return text
    },
    async until(wanted: string): Promise<string> {
      while (!text.includes(wanted)) {
        const { done, value } = await reader.read()
        if (done) throw new Error(`ended without ${wanted}: ${text}`)
        text += decoder.decode(value, { stream: true })
      }
      return text
    },
    async end(): Promise<string> {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return text
        text += decoder.decode(value, { stream: true })
      }
    },
    leave: () => reader.cancel(),
  }
}

const tokens = ['Once', 'upon', 'a', 'time'].map((word) => `data: ${word}\n\n`)

describe('recorded streams on fetch', () => {
  it('records events, gives each an id, and replays the same bytes', async () => {
    const { idempotent } = open()
    let runs = 0
    const POST = idempotent(RECORD, async () => {
      runs++
      return new Response(tokens.join(''), { status: 201, headers: { ...SSE, 'set-cookie': 'a=b' } })
    })
    const first = await POST(post('k'))
    expect([first.status, first.headers.get('set-cookie'), first.headers.get('idempotent-replayed')]).toEqual([
      201,
      'a=b',
      null,
    ])
    const text = await first.text()
    const ids = [...text.matchAll(/^id: @(\d+)$/gm)].map(([, id]) => Number(id))
    expect(text.replaceAll(/^id: @\d+\n/gm, '')).toBe(tokens.join(''))
    expect(ids.at(-1)).toBe(text.length)
    const again = await POST(post('k'))
    expect([again.status, again.headers.get('set-cookie'), again.headers.get('idempotent-replayed')]).toEqual([
      201,
      null,
      'true',
    ])
    expect(await again.text()).toBe(text)
    for (const id of [0, ...ids]) {
      const rest = await POST(post('k', { 'last-event-id': `@${id}` }))
      expect(rest.headers.get('stream-offset')).toBe(String(id))
      expect(await rest.text()).toBe(text.slice(id))
    }
    expect(await (await POST(post('k', { 'stream-offset': '3' }))).text()).toBe(text.slice(3))
    expect(runs).toBe(1)
    const past = await POST(post('k', { 'stream-offset': String(text.length + 1) }))
    expect([past.status, ((await past.json()) as { code: string }).code]).toEqual([416, 'ONCE_STREAM_POSITION'])
    expect((await POST(post('k', { 'stream-offset': 'x' }))).status).toBe(416)
    expect((await POST(post('k', {}, '{"other":1}'))).status).toBe(422)
  })

  it('resumes behind an own id of an event', async () => {
    const { idempotent } = open()
    const POST = idempotent(
      RECORD,
      () => new Response('id: a\ndata: 1\n\nid: b\ndata: 2\n\ndata: 3\n\n', { headers: SSE }),
    )
    const text = await (await POST(post('k'))).text()
    expect(text).toContain('id: a\ndata: 1\n\nid: b\ndata: 2\n\nid: @')
    expect(await (await POST(post('k', { 'last-event-id': 'a' }))).text()).toBe(text.slice(text.indexOf('id: b')))
    expect((await POST(post('k', { 'last-event-id': 'c' }))).status).toBe(416)
  })

  it('drops the byte order mark of each attempt, so that no event hides behind its id', async () => {
    const { idempotent } = open()
    const POST = idempotent({ ...RECORD, resume: true }, (_request, op) => {
      const source = fed()
      const bytes = encoder.encode(`\ufeffdata: ${op.attempt}\n\ndata: \ufeff\n\n`)
      // The second attempt writes the mark in two pieces.
      const cuts = op.attempt === 1 ? [bytes] : [bytes.subarray(0, 1), bytes.subarray(1)]
      for (const cut of cuts) source.write(cut)
      if (op.attempt === 2) source.end()
      else setTimeout(() => source.fail(new Error('the network')), 20)
      return new Response(source.body, { headers: SSE })
    })
    const bytesOf = async (): Promise<string> =>
      Buffer.from(await (await POST(post('k'))).arrayBuffer())
        .toString()
        .replaceAll(/^id: @\d+\n/gm, '')
    await bytesOf()
    const whole = 'data: 1\n\ndata: \ufeff\n\ndata: 2\n\ndata: \ufeff\n\n'
    expect([await bytesOf(), await bytesOf()]).toEqual([whole, whole])
  })

  it('lets a duplicate follow the live stream, here and in another process', async () => {
    const { idempotent, database } = open()
    const source = fed()
    let runs = 0
    const POST = idempotent(RECORD, () => {
      runs++
      return new Response(source.body, { headers: NDJSON })
    })
    const other = open(database).idempotent(RECORD, () => Response.error())
    const [first] = [reading(await POST(post('k')))]
    source.write('{"n":1}\n{"n"')
    expect(await first.until('\n')).toBe('{"n":1}\n')
    const near = reading(await POST(post('k')))
    const far = await other(post('k', { 'stream-offset': '2' }))
    expect(far.headers.get('idempotent-replayed')).toBe('true')
    const distant = reading(far)
    expect(await near.until('\n')).toBe('{"n":1}\n')
    expect(await distant.until('\n')).toBe('n":1}\n')
    source.write(':2}\n')
    for (const reader of [first, near]) expect(await reader.until('2}\n')).toBe('{"n":1}\n{"n":2}\n')
    source.write('{"n":3}')
    source.end()
    for (const reader of [first, near]) expect(await reader.end()).toBe('{"n":1}\n{"n":2}\n{"n":3}')
    expect(await distant.end()).toBe('n":1}\n{"n":2}\n{"n":3}')
    expect(runs).toBe(1)
  })

  it('goes on without its client', async () => {
    const { idempotent } = open()
    const source = fed()
    const POST = idempotent(RECORD, () => new Response(source.body))
    const first = reading(await POST(post('k')))
    source.write('abc')
    await first.until('abc')
    await first.leave()
    source.write('def')
    source.end()
    expect(await (await POST(post('k', { 'stream-offset': '3' }))).text()).toBe('def')
  })

  it('stores a failure as an event, and replays it', async () => {
    const { idempotent } = open()
    const failing = (headers: Record<string, string>, chunk: string) =>
      idempotent(RECORD, () => {
        const source = fed()
        source.write(chunk)
        setTimeout(() => source.fail(new Error('the model is gone')), 20)
        return new Response(source.body, { headers })
      })
    const events = failing(SSE, 'data: 1\n\ndata: unfinished')
    const text = await (await events(post('a'))).text()
    expect(text).toMatch(/^id: @17\ndata: 1\n\nid: @\d+\nevent: error\ndata: \{.*"code":"ONCE_STREAM_FAILED".*\}\n\n$/)
    expect(await (await events(post('a'))).text()).toBe(text)
    const end = /id: (@\d+)\nevent: error/.exec(text)?.[1] ?? ''
    expect(await (await events(post('a', { 'last-event-id': end }))).text()).toBe('')
    const lines = failing(NDJSON, '{"n":1}\n')
    const line = await (await lines(post('b'))).text()
    expect(JSON.parse(line.split('\n')[1]!)).toMatchObject({ error: { code: 'ONCE_STREAM_FAILED', retryable: false } })
    expect(await (await lines(post('b'))).text()).toBe(line)
    const bytes = failing({}, 'abc')
    for (const _attempt of [1, 2]) {
      const response = reading(await bytes(post('c')))
      expect(await response.until('abc')).toBe('abc')
      await expect(response.end()).rejects.toThrow('ONCE_STREAM_INTERRUPTED')
    }
  })

  it('calls a handler that can append again, with what is written', async () => {
    const { idempotent } = open()
    const seen: unknown[] = []
    const POST = idempotent({ ...RECORD, resume: true }, async (_request, op) => {
      seen.push([op.attempt, op.written.bytes, op.written.lastEventId, await op.written.text()])
      const source = fed()
      source.write(`data: ${op.attempt}\n\ndata: half`)
      if (op.attempt === 3) source.end()
      else setTimeout(() => source.fail(new Error('the network')), 20)
      return new Response(source.body, { headers: SSE })
    })
    const first = await (await POST(post('k'))).text()
    expect(first).toMatch(
      /^id: @17\ndata: 1\n\nevent: error\ndata: .*"code":"ONCE_STREAM_INTERRUPTED".*"offset":17.*\n\n$/,
    )
    const second = await (await POST(post('k', { 'last-event-id': '@17' }))).text()
    expect(second).toMatch(/^id: @34\ndata: 2\n\nevent: error/)
    const third = await POST(post('k', { 'last-event-id': '@34' }))
    expect(await third.text()).toBe('id: @51\ndata: 3\n\ndata: half')
    expect(await (await POST(post('k'))).text()).toBe(
      'id: @17\ndata: 1\n\nid: @34\ndata: 2\n\nid: @51\ndata: 3\n\ndata: half',
    )
    expect(seen).toEqual([
      [1, 0, null, ''],
      [2, 17, '@17', 'id: @17\ndata: 1\n\n'],
      [3, 34, '@34', 'id: @17\ndata: 1\n\nid: @34\ndata: 2\n\n'],
    ])
  })

  it.each([true, false])('takes over when the producer dies (resume: %s), and fences the dead', async (resume) => {
    const dying = open()
    const source = fed()
    const left = dying.idempotent({ ...RECORD, resume }, () => new Response(source.body, { headers: NDJSON }))
    const first = reading(await left(post('k')))
    source.write('1\n')
    await first.until('1\n')
    const living = open(dying.database)
    const right = living.idempotent({ ...RECORD, resume }, async (_request: Request, op: Op) => {
      return new Response(`${Number(await op.written.text()) + 1}\n`, { headers: NDJSON })
    })
    const follower = reading(await right(post('k')))
    await follower.until('1\n')
    ;(dying.once as unknown as OnceInstance<unknown, {}>).core.heartbeat.stop()
    const text = await follower.end()
    if (resume) expect(text).toBe('1\n2\n')
    else expect(text).toMatch(/^1\n\{"error":\{.*"code":"ONCE_STREAM_FAILED".*\}\}\n$/)
    expect(await first.end()).toMatch(/^1\n\{"error":\{.*"code":"ONCE_STREAM_INTERRUPTED".*"offset":2\}\}\n$/)
    expect(await (await right(post('k'))).text()).toBe(text)
    expect(await (await left(post('k'))).text()).toBe(text)
  })

  it('treats refusals like any other route', async () => {
    const { idempotent } = open()
    let runs = 0
    const answering = (make: () => Response) =>
      idempotent(RECORD, () => {
        runs++
        return make()
      })
    const refuse = answering(() => Response.json({ no: 'money' }, { status: 402, headers: { 'set-cookie': 'a=b' } }))
    const first = await refuse(post('a'))
    expect([first.status, first.headers.get('set-cookie'), await first.json()]).toEqual([402, 'a=b', { no: 'money' }])
    const again = await refuse(post('a'))
    expect([again.status, again.headers.get('idempotent-replayed'), runs]).toEqual([402, 'true', 1])
    const busy = answering(() => new Response('later', { status: 503 }))
    for (const n of [2, 3]) expect([(await busy(post('b'))).status, runs]).toEqual([503, n])
    const throws = answering(() => {
      throw new Error('mine')
    })
    for (const n of [4, 5]) {
      await expect(throws(post('c'))).rejects.toThrow('mine')
      expect(runs).toBe(n)
    }
    const ends = answering(() => {
      throw final({ status: 422, body: { no: 1 } })
    })
    expect([(await ends(post('d'))).status, (await ends(post('d'))).status, runs]).toEqual([422, 422, 6])
  })

  it.each([204, 205, 304])('answers %i, which has no body, and replays it', async (status) => {
    const { once, idempotent, database } = open()
    let runs = 0
    const make = (fails: boolean) =>
      idempotent(RECORD, (_request, op) => {
        runs++
        op.atEnd(async ({ tx }) => {
          await tx.insert('messages', { id: op.key })
          if (fails) throw new Error('no room')
        })
        return new Response(null, { status, headers: { ...SSE, etag: '"1"', 'set-cookie': 'a=b' } })
      })
    const POST = make(false)
    const seen = [await POST(post('k')), await POST(post('k')), await POST(post('k', { 'last-event-id': '@0' }))].map(
      ({ status: got, body, headers }) => [got, body, headers.get('set-cookie'), headers.get('idempotent-replayed')],
    )
    expect(seen).toEqual([
      [status, null, 'a=b', null],
      [status, null, null, 'true'],
      [status, null, null, 'true'],
    ])
    expect([runs, database.table('messages').rows(null).length]).toEqual([1, 1])
    // Nothing was sent, so a failure is answered like any other, and the next attempt runs.
    await expect(make(true)(post('fails'))).rejects.toThrow('no room')
    expect([(await POST(post('fails'))).status, runs]).toEqual([status, 3])
    await once.close()
  })

  it('commits the work of atEnd with the end of the stream, or neither', async () => {
    const { once, idempotent, database } = open()
    const rows = () => database.table('messages').rows(null).length
    const make = (fails: boolean) =>
      idempotent(RECORD, (_request, op) => {
        op.atEnd(async ({ tx }) => {
          await tx.insert('messages', { id: op.key })
          if (fails) throw new Error('no room')
        })
        return new Response('1\n2\n', { headers: NDJSON })
      })
    expect(await (await make(false)(post('a'))).text()).toBe('1\n2\n')
    expect(rows()).toBe(1)
    const text = await (await make(true)(post('b'))).text()
    expect(text).toMatch(/^1\n2\n\{"error".*ONCE_STREAM_FAILED/)
    expect(await (await make(false)(post('b'))).text()).toBe(text)
    expect(rows()).toBe(1)
    await once.close()
  })

  it('ends a stream that is too large, or has too large an event', async () => {
    const { idempotent } = open()
    const POST = idempotent(RECORD, () => new Response(`data: 1\n\ndata: ${'x'.repeat(300_000)}\n\n`, { headers: SSE }))
    expect(await (await POST(post('k'))).text()).toMatch(/^id: @\d+\nevent: error\n.*ONCE_STREAM_FAILED/)
  })

  it('gives the stream of another process only to requests with the same body', async () => {
    const database = new MemoryDatabase()
    const [here, there] = [open(database), open(database)]
    const source = fed()
    const make = ({ idempotent }: typeof here) =>
      idempotent(RECORD, () => new Response(source.body, { headers: NDJSON }))
    const first = make(here)(post('k'))
    source.write('{"secret":1}\n')
    await first
    // They meet in one process, where the first of them finds that the operation runs elsewhere.
    const POST = make(there)
    const bodies = ['{}', '{"other":1}', '{}', '{"other":2}']
    const answers = await Promise.all(bodies.map((body) => POST(post('k', {}, body))))
    expect(answers.map(({ status }) => status)).toEqual([200, 422, 200, 422])
    source.end()
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual([
      '{"secret":1}\n',
      expect.stringContaining('ONCE_MISMATCH'),
      '{"secret":1}\n',
      expect.stringContaining('ONCE_MISMATCH'),
    ])
    await Promise.all([here.once.close(), there.once.close()])
  })

  it('is refused at the start where it cannot work', () => {
    const { idempotent } = open()
    const make = (own: object) => () => idempotent(own as never, () => new Response('x'))
    expect(make({ streams: 'record' })).toThrow('lease')
    expect(make({ resume: true, lease: '1s' })).toThrow("streams: 'record'")
    expect(make({ ...RECORD, recover: () => {}, name: 'x' })).toThrow('recover')
    expect(make({ ...RECORD, encrypt: { keys: [{ id: 'a', secret: new Uint8Array(32) }] } })).toThrow('encrypt')
    const { streams, ...store } = memoryStore()
    expect(streams).toBeDefined()
    const lacking = idempotency(effectivelyOnce({ namespace: 'x', store, guard: 'off', sweep: false }), {
      scope: 'global',
    })
    expect(() => lacking(RECORD, () => new Response('x'))).toThrow('cannot record streams')
  })
})
