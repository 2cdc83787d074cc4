import { createServer, request as httpRequest } from 'node:http'
import express from 'express'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { worldOfEachTest } from '../../test/http/world-of-each-test.ts'
import { effect, listen, type QueryTx, type World } from '../../test/http/world.ts'
import { idempotency as expressIdempotency } from '../entry/express.ts'
import { idempotency } from '../entry/fetch.ts'
import { ERRORS, onceError, type OnceCode } from '../errors.ts'
import { effectivelyOnce, type SqlStore } from '../index.ts'
import { sameFingerprint } from '../key/fingerprint.ts'
import { parseKeyHeader } from '../key/header.ts'
import { identity } from '../key/identity.ts'
import { BODY_BYTES_DEFAULT } from '../limits.ts'
import { Client } from '../testing/http-contract/client.ts'
import { checkStored, keptHeaders, pickHeaders } from './headers.ts'
import { problemOf } from './problem.ts'

/** The rows of the threat model that fall on HTTP, by their numbers. */
const place = worldOfEachTest()
const post = (key: string, body: string, headers: Record<string, string> = {}): Request =>
  new Request('http://shop.test/x', {
    method: 'POST',
    headers: { 'idempotency-key': key, 'content-type': 'application/json', ...headers },
    body,
  })
const byUser = { scope: (request: Request) => request.headers.get('x-user') ?? '' }
const secretOf = (request: Request): Response => new Response(`secret of ${request.headers.get('x-user')}`)

test('T1, T6: two scopes never share a record, whatever characters they are made of', () => {
  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(text, text, text, text, (scopeA, keyA, scopeB, keyB) => {
      fc.pre(scopeA !== scopeB || keyA !== keyB)
      const a = identity({ namespace: 'n', scope: scopeA, key: keyA })
      const b = identity({ namespace: 'n', scope: scopeB, key: keyB })
      expect(a.id).not.toBe(b.id)
    }),
    { numRuns: 2_000 },
  )
})

test('T2: a revoked token gets 401 from the auth before it, never the stored body', async () => {
  const tokens = new Set(['good'])
  const app = express()
  app.use((req, res, next) => (tokens.has(req.get('authorization') ?? '') ? next() : res.sendStatus(401)))
  const idempotent = expressIdempotency(place.world.once, { scope: (req) => req.get('authorization') ?? '' })
  app.post(
    '/x',
    idempotent(async (_req, res) => void res.send('secret')),
  )
  place.started = await listen(createServer(app))
  const client = new Client(place.started.base)
  const send = () => client.send({ path: '/x', key: 'k', headers: { authorization: 'good' } })
  expect([(await send()).text, (await send()).text]).toEqual(['secret', 'secret'])
  tokens.clear()
  const refused = await send()
  expect([refused.status, refused.text]).toEqual([401, 'Unauthorized'])
})

test('T3: whoever uses the key first, each principal gets their own answer', async () => {
  const handler = idempotency(
    place.world.once,
    byUser,
  )(async (request, { tx, key }) => {
    await effect(tx, key)
    return secretOf(request)
  })
  for (const [index, order] of [
    ['anna', 'ben'],
    ['ben', 'anna'],
    ['anna', 'ben', 'anna', 'ben'],
  ].entries()) {
    for (const user of order) {
      const response = await handler(post(`k${index}`, '{}', { 'x-user': user }))
      expect(await response.text()).toBe(`secret of ${user}`)
    }
    expect(await place.world.effects(`k${index}`)).toBe(2)
  }
})

test('T4: weak keys are refused before anything is hashed or stored', async () => {
  const handler = idempotency(place.world.once, { scope: 'global', keyFormat: { minLength: 16 } })(
    async () => new Response('x'),
  )
  for (const key of ['1', '42', 'order-1', 'aaaaaaaaaaaaaaa']) expect((await handler(post(key, '{}'))).status).toBe(400)
  expect(place.world.signals).toEqual([])
})

test('T5: how much of a fingerprint matches does not show in the time it takes', () => {
  const stored = '8e03978e-40d5-43dd-bc93-6894a57f9324'
  const early = `9${stored.slice(1)}`
  const late = `${stored.slice(0, -1)}5`
  const time = (other: string): number => {
    const rounds = Array.from({ length: 21 }, () => {
      const from = performance.now()
      for (let i = 0; i < 5_000; i++) sameFingerprint(stored, other)
      return performance.now() - from
    })
    return rounds.toSorted((a, b) => a - b)[10] ?? 0
  }
  time(early)
  const [a, b] = [time(early), time(late)]
  expect(Math.max(a, b) / Math.min(a, b)).toBeLessThan(3)
})

describe('T8, T9, T10: headers', () => {
  const NAMES =
    'Set-Cookie Date WWW-Authenticate X-CSRF-Token X-RateLimit-Remaining Connection Location Content-Type ETag Link Retry-After X-Mine Content-Length Transfer-Encoding'
  const name = fc.constantFrom(...NAMES.split(' '))
  const value = fc.stringMatching(/^[\x21-\x7e]{0,30}$/)

  test('for all header sets a replay carries the allow-list, in order, and nothing else', () => {
    const kept = keptHeaders(['X-Mine'])
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 20 }), (pairs) => {
        const picked = pickHeaders(pairs, kept)
        const allowed = pairs.filter(([each]) => kept.has(each.toLowerCase()))
        expect(picked).toEqual(allowed.map(([each, text]) => [each.toLowerCase(), text]))
        expect(picked.some(([each]) => /cookie|authenticate|date|csrf|ratelimit|length|transfer/.test(each))).toBe(
          false,
        )
        checkStored(picked)
      }),
    )
  })

  test('several headers of one name stay several, with their commas', async () => {
    const app = express()
    const idempotent = expressIdempotency(place.world.once, { scope: 'global' })
    app.post(
      '/x',
      idempotent(async (_req, res) => {
        res.setHeader('link', ['</a,b>; rel="x"', '</c>; rel="y, z"'])
        res.status(201).send('x')
      }),
    )
    const server = createServer(app)
    place.started = await listen(server)
    const raw = (): Promise<string[]> =>
      new Promise((resolve) => {
        httpRequest(`${place.started?.base}/x`, { method: 'POST', headers: { 'idempotency-key': 'k' } }, (res) => {
          resolve(res.rawHeaders.filter((_, i) => i % 2 === 1 && res.rawHeaders[i - 1]?.toLowerCase() === 'link'))
          res.resume()
        }).end()
      })
    const first = await raw()
    expect(first).toEqual(['</a,b>; rel="x"', '</c>; rel="y, z"'])
    expect(await raw()).toEqual(first)
  })

  test('values that split a response are refused on the way in and on the way out', () => {
    const evil = ['a\r\nset-cookie: x', 'a\nb', 'a\rb', 'a\0b', 'a\r\n b', '\u0100']
    for (const each of evil) {
      expect(() => pickHeaders([['location', each]], keptHeaders())).toThrow('ONCE_ANSWER_INVALID')
      expect(() => checkStored([['location', each]])).toThrow('ONCE_ANSWER_INVALID')
      expect(() => checkStored([[each, 'x']])).toThrow('ONCE_ANSWER_INVALID')
    }
    expect(() => checkStored([['set-cookie', 'x']])).toThrow('ONCE_ANSWER_INVALID')
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        try {
          const [pair] = checkStored(pickHeaders([['location', text]], keptHeaders()))
          expect(new Headers([[...(pair as [string, string])]]).has('location')).toBe(true)
        } catch (error) {
          expect(String(error)).toContain('ONCE_ANSWER_INVALID')
        }
      }),
    )
  })

  test('a record somebody tampered with is an error, not a split response', async () => {
    const handler = idempotency(place.world.once, { scope: 'global' })(
      async () => new Response('x', { headers: { location: '/PLANTED' } }),
    )
    await handler(post('k', '{}'))
    const tables = await place.world.query(`select name, sql from sqlite_master where type = 'table'`)
    const table = String(tables.find(({ sql }) => /headers/.test(String(sql)) && /body/.test(String(sql)))?.['name'])
    await place.world.query(`update ${table} set headers = replace(headers, '/PLANTED', '/x\\r\\nset-cookie: y')`)
    ;(place.world.once as unknown as { core: { cache: { clear(): void } } }).core.cache.clear()
    const response = await handler(post('k', '{}'))
    expect([response.status, response.headers.get('set-cookie')]).toEqual([500, null])
  })
})

describe('T11: sizes', () => {
  test('a body over the limit is 413 by its real bytes, and nothing runs', async () => {
    const idempotent = expressIdempotency(place.world.once, { scope: 'global' })
    const app = express()
    app.post(
      '/x',
      idempotent(async (_req, res, { key }) => {
        place.world.ran(key)
        res.send('x')
      }),
    )
    place.started = await listen(createServer(app))
    // Chunked: no Content-Length says how much will come.
    const status = await new Promise<number>((resolve, reject) => {
      const headers = { 'idempotency-key': 'k', 'content-type': 'text/plain', 'transfer-encoding': 'chunked' }
      const req = httpRequest(`${place.started?.base}/x`, { method: 'POST', headers }, (res) => {
        resolve(res.statusCode ?? 0)
        res.resume()
      })
      req.on('error', reject)
      for (let sent = 0; sent <= BODY_BYTES_DEFAULT; sent += 1024 * 1024) req.write(Buffer.alloc(1024 * 1024, 'x'))
      req.end('y')
    })
    expect([status, place.world.runs('k')]).toEqual([413, 0])
  })

  test('a small compressed body that holds a large one is 413', async () => {
    const { gzipSync } = await import('node:zlib')
    const handler = idempotency(place.world.once, { scope: 'global' })(async () => new Response('x'))
    const bomb = gzipSync(Buffer.alloc(BODY_BYTES_DEFAULT + 1))
    expect(bomb.byteLength).toBeLessThan(20_000)
    const request = new Request('http://shop.test/x', {
      method: 'POST',
      headers: { 'idempotency-key': 'k', 'content-encoding': 'gzip' },
      body: bomb,
    })
    expect((await handler(request)).status).toBe(413)
  })

  test('a key has at most 255 bytes', () => {
    expect(() => parseKeyHeader('k'.repeat(256))).toThrow('ONCE_KEY_INVALID')
  })
})

test('T14: no header takes longer than its length', () => {
  const time = (value: string): number => {
    const rounds = Array.from({ length: 5 }, () => {
      const from = performance.now()
      try {
        parseKeyHeader(value)
      } catch {
        // Refused is fine; slow is not.
      }
      return performance.now() - from
    })
    return Math.min(...rounds)
  }
  const size = 1024 * 1024
  const evil = ['"', '\\"', ';a', '";', ' ', '\\', 'a,', '";a="', '\t', '"\\\\'].map((unit) =>
    unit.repeat(size / unit.length),
  )
  for (const value of [...evil, `"${'a'.repeat(size)}`, `"a"${';x=1'.repeat(size / 4)}`]) {
    // Thirty-two times the input: quadratic would be a thousand times.
    expect(time(value)).toBeLessThan(Math.max(0.2, time(value.slice(0, size / 32))) * 250)
  }
})

test('T15: members sent twice, prototypes and digits beyond a double are seen', async () => {
  const handler = idempotency(place.world.once, { scope: 'global' })(async () => new Response('x'))
  expect((await handler(post('a', '{"a":1,"a":2}'))).status).toBe(400)
  expect((await handler(post('b', '{"__proto__":{"admin":true}}'))).status).toBe(200)
  expect((await handler(post('b', '{}'))).status).toBe(422)
  expect(({} as { admin?: boolean }).admin).toBeUndefined()
  expect((await handler(post('c', '9007199254740993'))).status).toBe(200)
  expect((await handler(post('c', '9007199254740992'))).status).toBe(422)
  expect((await handler(post('d', `${'['.repeat(5000)}${']'.repeat(5000)}`))).status).toBe(400)
})

test('T17: no key, scope, body or header gets into signals, logs or problems', async () => {
  const planted = ['KEY-PLANTED', 'SCOPE-PLANTED', 'BODY-PLANTED', 'ANSWER-PLANTED', 'HEADER-PLANTED']
  const spies = (['log', 'warn', 'error', 'info', 'debug'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation(() => {}),
  )
  const problems: string[] = []
  const handler = idempotency(place.world.once, { scope: () => 'SCOPE-PLANTED' })(async (_request, { tx, key }) => {
    await effect(tx, key)
    return new Response('ANSWER-PLANTED', { headers: { location: '/HEADER-PLANTED' } })
  })
  for (const body of ['{"x":"BODY-PLANTED"}', '{"x":"BODY-PLANTED"}', '{"y":"BODY-PLANTED"}', '{BODY-PLANTED']) {
    const response = await handler(post('KEY-PLANTED', body))
    if (response.status >= 400) problems.push(await response.text())
  }
  problems.push(await (await handler(post('"KEY-PLANTED', '{}'))).text())
  expect(problems).toHaveLength(3)
  const seen = JSON.stringify([problems, place.world.signals, spies.map((spy) => spy.mock.calls)])
  for (const spy of spies) spy.mockRestore()
  for (const secret of planted) expect(seen).not.toContain(secret)
})

test('T17: the client learns the details of its own mistakes, and of nothing from 500 on', () => {
  const told = (code: OnceCode): [OnceCode, unknown] => {
    const { body } = problemOf(onceError(code, { detail: 'PLANTED' }), { docs: 'https://docs.test' })
    if (ERRORS[code].status >= 500)
      expect(new TextDecoder().decode(body ?? undefined)).not.toMatch(/npx|Run:|Use |Call /)
    const { detail } = JSON.parse(new TextDecoder().decode(body ?? undefined)) as { detail: string }
    return [code, detail.includes('PLANTED')]
  }
  const codes = Object.keys(ERRORS) as OnceCode[]
  expect(codes.map((code) => ERRORS[code].status)).toContain(500)
  expect(codes.map((code) => told(code))).toEqual(codes.map((code) => [code, ERRORS[code].status < 500]))
})

describe('T20: a store that fails, fails closed', () => {
  const broken = (part: 'begin' | 'refuse' | 'claim'): World['once'] => {
    const down = async (): Promise<never> => {
      throw onceError('ONCE_STORE_UNAVAILABLE', { detail: 'connect ECONNREFUSED 10.0.0.7:5432' })
    }
    const real = (place.world.once as unknown as { core: { store: SqlStore<QueryTx> } }).core.store
    const store = new Proxy(real, {
      get(target, name) {
        if (name === part) return down
        if (name === 'leases' && part === 'claim') return { ...target.leases, claim: down }
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    return effectivelyOnce<QueryTx>({ namespace: 'broken', store, guard: 'off', sweep: false })
  }
  test.each(['begin', 'refuse', 'claim'] as const)('at %s', async (part) => {
    let runs = 0
    const idempotent = idempotency(broken(part), { scope: 'global' })
    const handler =
      part === 'claim'
        ? idempotent({ lease: '5s' }, async (_request, { commit }) => {
            runs++
            return commit(async () => new Response('x'))
          })
        : idempotent(async () => {
            runs++
            return new Response('x', { status: part === 'refuse' ? 402 : 200 })
          })
    const response = await handler(post('k', '{}'))
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(runs).toBe(part === 'refuse' ? 1 : 0)
    // The client does not learn where the database is.
    expect(await response.text()).not.toContain('10.0.0.7')
  })
})
