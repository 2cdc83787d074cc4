import { describe, expect, it } from 'vitest'
import { answer, PAY, post, problem, scripted, VirtualTime } from '../../test/client/support/scripted.ts'
import { isCallError } from './call-error.ts'
import { ERRORS, type OnceCode } from '../errors.ts'
import { memoryStorage } from './memory.ts'
import type { CallStorage } from './types.ts'

const lost = new TypeError('fetch failed')
const error = (code: string, part: object = {}): unknown =>
  expect.objectContaining({ name: 'OnceError', code, ...part })

describe('a call', () => {
  it('has one key for all its attempts, and waits with full jitter', async () => {
    const { client, sent, time } = scripted([lost, answer(503), answer(500)])
    const response = await client.fetch(PAY, post())
    expect([response.status, response.replayed, response.key]).toEqual([201, false, 'uuid-1'])
    expect(await response.json()).toEqual({ id: 7 })
    expect(sent.map(({ key, body }) => [key, body])).toEqual(
      Array.from({ length: 4 }, () => ['uuid-1', '{"amount":5}']),
    )
    // Half of 200, 400 and 800 ms, because the random number is always one half.
    expect(time.passed).toEqual([100, 200, 400])
    expect(await client.pending()).toEqual([])
  })

  it('is stored before the first byte leaves', async () => {
    const storage = memoryStorage()
    const at: number[] = []
    const seen: CallStorage = { ...storage, add: async (...of) => (at.push(sent.length), storage.add(...of)) }
    const { client, sent } = scripted([], { storage: seen })
    await client.fetch(PAY, post())
    expect([at, sent.length]).toEqual([[0], 1])
    const failing = scripted([], { storage: { ...storage, add: () => Promise.reject(new Error('disk full')) } })
    await expect(failing.client.fetch(PAY, post())).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
    expect(failing.sent).toEqual([])
  })

  it('waits as long as Retry-After says, in seconds or until a date', async () => {
    const time = new VirtualTime()
    const date = new Date(Math.ceil((time.nowMs + 9_000) / 1_000) * 1_000).toUTCString()
    const { client } = scripted(
      [answer(429, {}, { 'retry-after': '7' }), answer(503, {}, { 'retry-after': date })],
      {},
      time,
    )
    await client.fetch(PAY, post())
    expect(time.passed[0]).toBe(7_000)
    expect(time.passed[1]).toBeGreaterThan(1_000)
    expect(time.passed[1]).toBeLessThanOrEqual(3_000)
  })

  it('waits longer each time for a running attempt whose server does not say how long', async () => {
    const running = Array.from({ length: 6 }, () => problem(409, 'ONCE_IN_FLIGHT'))
    const { client, time } = scripted(running, { retry: { attempts: 1 } })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect(time.passed.filter((ms) => ms < 10_000)).toEqual([100, 200, 400, 800, 1_600, 3_200])
  })

  it('waits for a running attempt without counting it as a retry', async () => {
    const running = Array.from({ length: 20 }, () => problem(409, 'ONCE_IN_FLIGHT', { 'retry-after': '1' }))
    const { client, sent } = scripted(running, { retry: { attempts: 2, budget: 0 } })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect(sent).toHaveLength(21)
  })

  it.each([
    [400, 'ONCE_KEY_INVALID', 'none'],
    [413, 'ONCE_BODY_TOO_LARGE', 'none'],
    [422, 'ONCE_MISMATCH', 'stopped'],
    [410, 'ONCE_GONE', 'stopped'],
    [409, 'ONCE_OUTCOME_UNKNOWN', 'stopped'],
    [409, 'ONCE_UNREPLAYABLE', 'done'],
  ])('%i %s stops it, and leaves it %s', async (status, code, state) => {
    const { client, sent } = scripted([problem(status, code)])
    const thrown = error(code, { status, retryable: false, message: `${code} about ${code}` })
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(thrown)
    expect(sent).toHaveLength(1)
    expect(await client.state('pay 7')).toBe(state)
    if (state === 'stopped') {
      expect(await client.pending()).toEqual([expect.objectContaining({ name: 'pay 7', stopped: code })])
      // Nothing is sent until somebody looked the outcome up.
      await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error(code))
      expect(await client.resume()).toEqual([expect.objectContaining({ name: 'pay 7', error: error(code) })])
      expect(sent).toHaveLength(1)
      expect([await client.forget('pay 7'), await client.forget('pay 7')]).toEqual([true, false])
      expect((await client.fetch(PAY, post(), { name: 'pay 7' })).status).toBe(201)
    }
  })

  it.each([402, 404, 409, 422])("returns a handler's own %i as its answer", async (status) => {
    const { client, sent } = scripted([answer(status, { error: 'own' })])
    const response = await client.fetch(PAY, post(), { name: 'pay 7' })
    expect([response.status, await response.json(), sent.length]).toEqual([status, { error: 'own' }, 1])
    expect(await client.pending()).toEqual([])
  })

  it('stays pending when its attempts are used up, and resume ends it with the same key', async () => {
    const { client, sent } = scripted([lost, lost, answer(500)], { retry: { attempts: 3 } })
    const thrown = await client.fetch(PAY, post(), { name: 'pay 7' }).catch((cause: unknown) => cause)
    expect(
      isCallError(thrown, 'ONCE_CALL_PENDING') && [thrown.call, thrown.response?.status, thrown.retryable],
    ).toEqual([{ name: 'pay 7', key: 'uuid-1' }, 500, true])
    expect(await client.pending()).toEqual([
      { name: 'pay 7', key: 'uuid-1', method: 'POST', url: PAY, since: 1_000_000, running: false, stopped: undefined },
    ])
    const [resumed] = await client.resume()
    expect([resumed?.name, resumed?.response?.status, sent.at(-1)?.key]).toEqual(['pay 7', 201, 'uuid-1'])
    expect([await client.pending(), await client.state('pay 7')]).toEqual([[], 'done'])
  })

  it.each([
    ['deadline', { deadline: '5s', retry: { attempts: 1_000 } }],
    ['budget', { retry: { budget: 3, attempts: 1_000 } }],
    ['times', { retry: { attempts: 4 } }],
  ] as const)('ends in time: %s', async (why, options) => {
    const { client, sent, time } = scripted(
      Array.from({ length: 1_000 }, () => lost),
      { breaker: false, ...options },
    )
    await expect(client.fetch(PAY, post())).rejects.toEqual(
      error('ONCE_CALL_PENDING', { message: expect.stringContaining(why) as string }),
    )
    expect(sent.length).toBeLessThan(20)
    expect(time.nowMs - 1_000_000).toBeLessThanOrEqual(60_000)
    expect(await client.pending()).toHaveLength(1)
  })

  it('gives up an attempt without an answer, even if fetch ignores its signal', async () => {
    const { client, sent, time } = scripted(['hang'], { timeout: '10s' })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect([sent.length, time.passed[0]]).toEqual([2, 10_000])
  })

  it('says that an aborted call stays pending, and that an unsent one does not', async () => {
    const { client, sent } = scripted([])
    await expect(client.fetch(PAY, { ...post(), signal: AbortSignal.abort() })).rejects.toThrow('aborted')
    expect([sent, await client.pending()]).toEqual([[], []])
    const controller = new AbortController()
    const hanging = scripted([() => (controller.abort(new Error('left the page')), answer(503))])
    const thrown = {
      message: 'ONCE_CALL_PENDING the call stays pending: it was aborted',
      cause: new Error('left the page'),
    }
    await expect(hanging.client.fetch(PAY, post(), { signal: controller.signal })).rejects.toEqual(
      error('ONCE_CALL_PENDING', thrown),
    )
    expect(await hanging.client.pending()).toHaveLength(1)
  })

  it('is refused at once while the breaker rests, and nothing is stored', async () => {
    const options = { retry: { attempts: 1 }, breaker: { failures: 2, rest: '5s' } } as const
    const { client, sent, time } = scripted([lost, lost], options)
    for (let i = 0; i < 2; i++) await expect(client.fetch(PAY, post())).rejects.toEqual(error('ONCE_CALL_PENDING'))
    await expect(client.fetch(PAY, post())).rejects.toEqual(error('ONCE_CIRCUIT_OPEN', { retryAfterMs: 5_000 }))
    expect([sent.length, (await client.pending()).length]).toEqual([2, 2])
    // Another origin is not affected.
    expect((await client.fetch('https://other.example/', post())).status).toBe(201)
    time.nowMs += 5_000
    expect((await client.fetch(PAY, post())).status).toBe(201)
  })

  it('is never stopped by a refusal that is not about the key, after an attempt without an answer', async () => {
    // The token expired between two attempts. The first attempt may have charged the card.
    const { client } = scripted([lost, answer(401)])
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(
      error('ONCE_CALL_PENDING', { response: expect.objectContaining({ status: 401 }) as unknown }),
    )
    expect(await client.state('pay 7')).toBe('pending')
    // The same refusal from the protected route shows that no attempt was committed.
    const inside = scripted([lost, answer(402, {}, { 'idempotency-key': 'uuid-1' })])
    expect((await inside.client.fetch(PAY, post(), { name: 'pay 7' })).status).toBe(402)
    expect(await inside.client.state('pay 7')).toBe('none')
  })

  it('keeps its key after an answer that servers do not store', async () => {
    const { client, sent } = scripted([answer(401), answer(201), answer(401), answer(201)])
    expect((await client.fetch(PAY, post(), { name: 'pay 7' })).status).toBe(401)
    expect([await client.state('pay 7'), await client.pending()]).toEqual(['refused', []])
    expect((await client.fetch(PAY, post(), { name: 'pay 7' })).status).toBe(201)
    expect(sent.map(({ key }) => key)).toEqual(['uuid-1', 'uuid-1'])
    expect((await client.fetch(PAY, post(), { name: 'pay 8' })).status).toBe(401)
    expect((await client.fetch(PAY, post({ amount: 6 }), { name: 'pay 8' })).status).toBe(201)
    expect(new Set(sent.map(({ key }) => key)).size).toBe(3)
  })
})

describe('a name', () => {
  it('is one call: a double click sends once, and both get the answer', async () => {
    const slow = new Promise<Response>((resolve) => setTimeout(() => resolve(answer(201, { id: 7 })), 100))
    const { client, sent } = scripted([() => slow], { timeout: '1h', deadline: '2h' }, new VirtualTime(1_000))
    const both = await Promise.all([
      client.fetch(PAY, post(), { name: 'pay 7' }),
      client.fetch(PAY, post(), { name: 'pay 7' }),
    ])
    expect(await Promise.all(both.map((response) => response.json()))).toEqual([{ id: 7 }, { id: 7 }])
    expect(sent).toHaveLength(1)
  })

  it('asks for the same answer after a success, until it is forgotten', async () => {
    const storage = memoryStorage()
    const first = scripted([], { storage })
    await first.client.fetch(PAY, post(), { name: 'pay 7' })
    const later = scripted([answer(201, { id: 7 }, { 'idempotent-replayed': 'true' })], { storage })
    const response = await later.client.fetch(PAY, post(), { name: 'pay 7' })
    expect([response.replayed, later.sent[0]?.key, later.sent[0]?.body]).toEqual([true, 'uuid-1', '{"amount":5}'])
    later.time.nowMs += 24 * 3_600_000
    expect(await later.client.state('pay 7')).toBe('none')
    await later.client.fetch(PAY, post(), { name: 'pay 7' })
    expect(later.sent[1]?.key).not.toBe('uuid-1')
  })

  it.each(['open', 'done'])('refuses another request while it is %s, and sends nothing', async (state) => {
    const { client, sent } = scripted(state === 'open' ? [lost] : [], { retry: { attempts: 1 } })
    await client.fetch(PAY, post(), { name: 'pay 7' }).catch(() => {})
    const others = [
      [PAY, post({ amount: 6 })],
      [`${PAY}/8`, post()],
      [PAY, { ...post(), method: 'PUT' }],
      [PAY, { ...post(), headers: { 'content-type': 'text/plain' } }],
    ] as const
    for (const [url, init] of others)
      await expect(client.fetch(url, init, { name: 'pay 7' })).rejects.toEqual(error('ONCE_MISMATCH', { status: 422 }))
    expect(sent).toHaveLength(1)
  })

  it('recognises a form, whose boundary is new each time', async () => {
    const form = (amount: string): RequestInit => {
      const body = new FormData()
      body.set('amount', amount)
      body.set('scan', new Blob([new Uint8Array([0, 255, 128])]), 'scan.bin')
      return { method: 'POST', body }
    }
    const { client, sent } = scripted([])
    await client.fetch(PAY, form('5'), { name: 'pay 7' })
    await client.fetch(PAY, form('5'), { name: 'pay 7' })
    expect(sent).toHaveLength(2)
    await expect(client.fetch(PAY, form('6'), { name: 'pay 7' })).rejects.toEqual(error('ONCE_MISMATCH'))
  })
})

describe('what is stored', () => {
  it('is enough to send the call again, without secrets', async () => {
    const storage = memoryStorage()
    const headers = {
      authorization: 'Bearer secret',
      'x-pin': '1234',
      'x-order': '7',
      'content-type': 'application/json',
    }
    const options = { storage, secrets: ['X-Pin'], retry: { attempts: 1 } }
    const before = scripted([lost], options)
    const call = before.client.fetch(PAY, { ...post(), headers }, { name: 'pay 7' })
    await expect(call).rejects.toEqual(error('ONCE_CALL_PENDING'))
    expect(before.sent[0]?.headers.get('authorization')).toBe('Bearer secret')
    const [text = ''] = await storage.list()
    expect(text).not.toMatch(/secret|1234/)
    const after = scripted([], { ...options, headers: ({ name }) => ({ authorization: `fresh for ${name}` }) })
    await after.client.resume()
    const [sent] = after.sent
    expect([sent?.url, sent?.body, sent?.key]).toEqual([PAY, '{"amount":5}', 'uuid-1'])
    expect([sent?.headers.get('authorization'), sent?.headers.get('x-order')]).toEqual(['fresh for pay 7', '7'])
  })

  it('refuses a body that cannot be sent again', async () => {
    const { client, sent } = scripted([])
    const streams = [new ReadableStream(), (async function* () {})()] as unknown as ReadableStream[]
    for (const body of streams)
      await expect(client.fetch(PAY, { method: 'POST', body, duplex: 'half' })).rejects.toEqual(
        error('ONCE_BODY_UNREPLAYABLE'),
      )
    await expect(client.fetch(PAY, { method: 'POST', body: 'x'.repeat(2 ** 20 + 1) })).rejects.toEqual(
      error('ONCE_BODY_UNREPLAYABLE'),
    )
    expect(sent).toEqual([])
  })

  it('is not hidden by a storage that fails after the answer: the caller gets it, and a resume asks again', async () => {
    const storage = memoryStorage()
    const told: unknown[] = []
    const failing = { ...storage, swap: () => Promise.reject(new Error('disk full')) }
    const { client } = scripted([], { storage: failing, onError: (cause) => told.push(cause) })
    expect((await client.fetch(PAY, post(), { name: 'pay 7' })).status).toBe(201)
    expect([told, (await client.pending()).length]).toEqual([[new Error('disk full')], 1])
  })
})

describe('the policy of a server', () => {
  it('is read before a retry, and a call that is too old is not sent', async () => {
    const { client, sent, time } = scripted([lost, lost], { policy: true, retry: { attempts: 1 } })
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_CALL_PENDING'))
    await client.resume()
    expect(sent).toHaveLength(2)
    time.nowMs += 60_000
    const [resumed] = await client.resume()
    expect([resumed?.error, sent.length]).toEqual([error('ONCE_GONE', { status: 410 }), 2])
    expect(await client.pending()).toEqual([expect.objectContaining({ stopped: 'ONCE_GONE' })])
  })

  it('is read again after five minutes, because a deployment may shorten the retention', async () => {
    let replayFor = 3_600
    let sends = 0
    const fetch = async (url: string): Promise<Response> => {
      if (url.endsWith('/.well-known/idempotency-key'))
        return Response.json({ retention: { replayFor, goneFor: 0, afterReplay: 'rerun' } })
      sends++
      throw lost
    }
    const { client, time } = scripted([], { fetch, policy: true, retry: { attempts: 1 } })
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_CALL_PENDING'))
    await client.resume()
    replayFor = 60
    time.nowMs += 5 * 60_000
    const [resumed] = await client.resume()
    expect([resumed?.error, sends]).toEqual([error('ONCE_GONE', { status: 410 }), 2])
  })

  it('is replaced by `retention` where a server publishes none', async () => {
    const { client, sent, time } = scripted([lost], { retention: '2h', retry: { attempts: 1 } })
    await client.fetch(PAY, post()).catch(() => {})
    time.nowMs += 2 * 3_600_000
    const [resumed] = await client.resume()
    expect([resumed?.error, sent.length]).toEqual([error('ONCE_GONE'), 1])
  })

  it('must be readable before an old call is sent again', async () => {
    let sends = 0
    const fetch = async (url: string): Promise<Response> => {
      if (!url.includes('well-known')) sends += 1
      throw lost
    }
    const { client, time } = scripted([], { fetch, retry: { attempts: 1 } })
    await client.fetch(PAY, post()).catch(() => {})
    await client.resume()
    expect(sends).toBe(2)
    time.nowMs += 10 * 60_000
    const [resumed] = await client.resume()
    expect([resumed?.error, sends]).toEqual([error('ONCE_CALL_PENDING'), 2])
  })
})

describe('other servers', () => {
  const stripe = (status: number, error: object, headers = {}): Response => answer(status, { error }, headers)

  it('stripe: 409 waits, a parameter mismatch stops, a stored 500 is unknown', async () => {
    const { client, sent } = scripted([stripe(409, { code: 'idempotency_key_in_use' })], { server: 'stripe' })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect(sent).toHaveLength(2)
    const mismatch = scripted([stripe(400, { type: 'idempotency_error' })], { server: 'stripe' })
    await expect(mismatch.client.fetch(PAY, post())).rejects.toEqual(error('ONCE_MISMATCH', { status: 400 }))
    const own = scripted([stripe(402, { type: 'card_error' })], { server: 'stripe' })
    expect((await own.client.fetch(PAY, post())).status).toBe(402)
    const failed = scripted([answer(500), answer(500, {}, { 'idempotent-replayed': 'true' })], { server: 'stripe' })
    await expect(failed.client.fetch(PAY, post())).rejects.toEqual(error('ONCE_OUTCOME_UNKNOWN'))
    const never = scripted([answer(500, {}, { 'stripe-should-retry': 'false' })], { server: 'stripe' })
    await expect(never.client.fetch(PAY, post())).rejects.toEqual(error('ONCE_OUTCOME_UNKNOWN'))
    const again = scripted([answer(400, {}, { 'stripe-should-retry': 'true' })], { server: 'stripe' })
    expect((await again.client.fetch(PAY, post())).status).toBe(201)
  })

  it('ietf: 409 waits and 422 stops, without any code', async () => {
    const { client } = scripted([answer(409), answer(422)], { server: 'ietf' })
    await expect(client.fetch(PAY, post())).rejects.toEqual(error('ONCE_MISMATCH'))
  })

  it('a function of your own decides', async () => {
    const { client, sent } = scripted([answer(418), answer(404)], {
      server: ({ status }) => (status === 418 ? 'retry' : 'answer'),
    })
    expect([(await client.fetch(PAY, post())).status, sent.length]).toEqual([404, 2])
  })
})

describe('the options', () => {
  it('are checked', () => {
    const wrong: object[] = [
      { retries: 3 },
      { retry: { tries: 3 } },
      { breaker: { after: 3 } },
      { retry: { attempts: 0 } },
      { deadline: 30 },
      { server: 'paypal' },
      { storage: new Map() },
    ]
    for (const options of wrong) expect(() => scripted([], options)).toThrow('ONCE_OPTION_INVALID')
  })

  it('refuse a key that no header can carry, before anything is stored', async () => {
    const { client, sent } = scripted([])
    for (const call of [{ key: 'kéy' }, { key: '' }, { key: 'x'.repeat(256) }, { name: '' }])
      await expect(client.fetch(PAY, post(), call)).rejects.toEqual(error('ONCE_OPTION_INVALID'))
    expect([sent, await client.pending()]).toEqual([[], []])
  })

  it('send GET without a key', async () => {
    const { client, sent } = scripted([])
    expect((await client.fetch(PAY)).status).toBe(201)
    expect(sent[0]?.key).toBe(null)
  })

  it('take the key of the request', async () => {
    const { client, sent } = scripted([])
    const headers = { 'Idempotency-Key': 'order-7' }
    const response = await client.fetch(new Request(PAY, { method: 'POST', body: 'x', headers }))
    expect([response.key, sent[0]?.key, sent[0]?.body]).toEqual(['order-7', 'order-7', 'x'])
  })

  it('have errors as the table describes them', async () => {
    const { client } = scripted([lost, lost], { retry: { attempts: 1 }, breaker: { failures: 1 } })
    const stream = { method: 'POST', body: new ReadableStream(), duplex: 'half' } as RequestInit
    const thrown: Facts[] = []
    for (const init of [post(), post(), stream])
      await client.fetch(PAY, init).catch((cause: unknown) => thrown.push(cause as Facts))
    for (const { code, status, retryable } of thrown)
      expect({ status, retryable }).toEqual({ status: ERRORS[code].status, retryable: ERRORS[code].retryable })
    expect(thrown.map(({ code }) => code)).toEqual(['ONCE_CALL_PENDING', 'ONCE_CIRCUIT_OPEN', 'ONCE_BODY_UNREPLAYABLE'])
  })
})

interface Facts {
  readonly code: OnceCode
  readonly status: number
  readonly retryable: boolean
}
