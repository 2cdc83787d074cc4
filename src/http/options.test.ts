import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openWorld, type QueryTx, type World } from '../../test/http/world.ts'
import { idempotency } from '../entry/fetch.ts'
import type { IdempotencyOptions, ReplayRecord } from './options.ts'

let world: World

beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(() => world.close())

const key1 = { id: '2026-01', secret: new Uint8Array(32).fill(1) }
const key2 = { id: '2026-02', secret: new Uint8Array(32).fill(2) }

type Handler = (request: Request) => Promise<Response>

function route(
  options: Partial<IdempotencyOptions<Request>>,
  answer: () => Response = () => Response.json({ n: 1 }),
): Handler {
  const idempotent = idempotency(world.once, { scope: 'global', ...options })
  return idempotent(async (_request: Request, { tx, key }: { tx: QueryTx; key: string }) => {
    world.ran(key)
    await tx.query('insert into contract_effect (route, key) values ($1, $2)', ['x', key])
    return answer()
  })
}

function post(key: string, body: unknown = { amount: 1 }, headers: Record<string, string> = {}): Request {
  return new Request('http://shop.test/charges', {
    method: 'POST',
    headers: { 'idempotency-key': key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}

/** Another process: nothing is remembered here. */
function forget(): void {
  ;(world.once as unknown as { core: { cache: { clear(): void } } }).core.cache.clear()
}

const codeOf = async (response: Response): Promise<string> => ((await response.json()) as { code: string }).code

describe('encrypt', () => {
  const secret = 'a very secret answer'
  const stored = async (): Promise<string> => {
    const tables = await world.query(`select name from sqlite_master where type = 'table'`)
    const dump: unknown[] = []
    for (const { name } of tables) dump.push(await world.query(`select * from "${String(name)}"`))
    return JSON.stringify(dump, (_, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value,
    )
  }
  const answer = (): Response => new Response(secret, { headers: { location: '/secret-place' } })

  test('seals body and headers at rest, and opens them for a replay', async () => {
    const plain = route({}, answer)
    await plain(post('plain'))
    expect(await stored()).toContain(secret)
    const sealed = route({ encrypt: { keys: [key1] } }, answer)
    await world.query('delete from contract_effect')
    const before = (await stored()).split(secret).length
    expect(await (await sealed(post('sealed'))).text()).toBe(secret)
    expect((await stored()).split(secret).length).toBe(before)
    forget()
    const replay = await sealed(post('sealed'))
    expect(await replay.text()).toBe(secret)
    expect(replay.headers.get('location')).toBe('/secret-place')
    expect(replay.headers.get('idempotent-replayed')).toBe('true')
  })

  test('seals the refusal of a leased handler too', async () => {
    const idempotent = idempotency(world.once, { scope: 'global', encrypt: { keys: [key1] } })
    const leased = idempotent({ lease: '5s' }, async () => new Response(secret, { status: 402 }) as never)
    for (const replayed of [null, 'true']) {
      const response = await leased(post('leased'))
      expect([response.status, await response.text()]).toEqual([402, secret])
      expect(response.headers.get('idempotent-replayed')).toBe(replayed)
      expect(await stored()).not.toContain(secret)
      forget()
    }
  })

  test('rotation: a new key in front seals, the old one still opens; without it the answer is unreplayable', async () => {
    await route({ encrypt: { keys: [key1] } }, answer)(post('k'))
    const rotated = route({ encrypt: { keys: [key2, key1] } }, answer)
    forget()
    expect(await (await rotated(post('k'))).text()).toBe(secret)
    await rotated(post('k2'))
    forget()
    expect(await (await route({ encrypt: { keys: [key2] } }, answer)(post('k2'))).text()).toBe(secret)
    for (const handler of [route({ encrypt: { keys: [key2] } }, answer), route({}, answer)]) {
      forget()
      expect(await codeOf(await handler(post('k')))).toBe('ONCE_UNREPLAYABLE')
    }
    expect(world.runs('k')).toBe(1)
  })

  test('T7: a sealed answer moved into another record does not open there', async () => {
    const handler = route({ encrypt: { keys: [key1] } }, answer)
    await handler(post('mine'))
    await handler(post('theirs'))
    const table = (await world.query(`select name from sqlite_master where name like '%answer%' and type = 'table'`))[0]
    const rows = await world.query(`select rowid as r, body from ${String(table?.['name'])} order by rowid`)
    expect(rows).toHaveLength(2)
    await world.query(`update ${String(table?.['name'])} set body = $1 where rowid = $2`, [
      rows[0]?.['body'],
      rows[1]?.['r'],
    ])
    forget()
    expect(await codeOf(await handler(post('theirs')))).toBe('ONCE_UNREPLAYABLE')
  })

  test('keys are checked when the program starts', () => {
    const keys = [[], [{ id: 'a', secret: new Uint8Array(31) }], [key1, key1], [{ id: 'ä', secret: key1.secret }]]
    for (const each of keys) expect(() => route({ encrypt: { keys: each } })).toThrow('ONCE_OPTION_INVALID')
  })
})

describe('version', () => {
  test('an answer of another version is gone without an upgrade, and upgraded with one', async () => {
    await route({ version: '1' })(post('k'))
    expect((await route({ version: '1' })(post('k'))).headers.get('idempotent-replayed')).toBe('true')
    const gone = await route({ version: '2' })(post('k'))
    expect([gone.status, await codeOf(gone)]).toEqual([410, 'ONCE_GONE'])
    const upgrade = ({ version, body, status }: ReplayRecord) => ({
      status,
      headers: [['content-type', 'application/json']] as const,
      body: JSON.stringify({ from: version, was: JSON.parse(new TextDecoder().decode(body ?? new Uint8Array())) }),
    })
    const upgraded = await route({ version: '2', upgrade })(post('k'))
    expect([upgraded.status, await upgraded.json()]).toEqual([200, { from: '1', was: { n: 1 } }])
    expect(upgraded.headers.get('idempotent-replayed')).toBe('true')
    expect(world.runs('k')).toBe(1)
  })

  test('an upgrade to a body that cannot be sent is one clear error', async () => {
    await route({ version: '1' })(post('k'))
    const upgrade = () => ({ status: 200, body: { n: 1 } as unknown as string })
    const answer = await route({ version: '2', upgrade })(post('k'))
    expect([answer.status, await codeOf(answer)]).toEqual([500, 'ONCE_ANSWER_INVALID'])
  })

  test('works with encrypt', async () => {
    const encrypt = { keys: [key1] }
    await route({ version: '1', encrypt })(post('k'))
    forget()
    expect((await route({ version: '1', encrypt })(post('k'))).status).toBe(200)
    expect((await route({ version: '2', encrypt })(post('k'))).status).toBe(410)
  })
})

describe('onReplay', () => {
  test('sees every replay and may answer instead; the record does not change', async () => {
    const seen: ReplayRecord[] = []
    let revoked = false
    const handler = route({
      onReplay: (request, record) => {
        expect(request.headers.get('idempotency-key')).toBe('k')
        seen.push(record)
        return revoked ? { status: 401, body: 'revoked' } : undefined
      },
    })
    expect((await handler(post('k'))).status).toBe(200)
    expect(seen).toHaveLength(0)
    expect((await handler(post('k'))).status).toBe(200)
    revoked = true
    const refused = await handler(post('k'))
    expect([refused.status, await refused.text(), refused.headers.get('idempotent-replayed')]).toEqual([
      401,
      'revoked',
      null,
    ])
    revoked = false
    expect((await handler(post('k'))).status).toBe(200)
    expect(seen[0]).toMatchObject({ key: 'k', scope: 'global', status: 200, version: null })
  })

  test('what it throws is an error of the host', async () => {
    const handler = route({
      onReplay: () => {
        throw new Error('rate limit store is down')
      },
    })
    await handler(post('k'))
    await expect(handler(post('k'))).rejects.toThrow('rate limit store is down')
  })

  const endless = (): Promise<never> => new Promise(() => {})
  const deadline = '150ms'
  test.each<[string, Partial<IdempotencyOptions<Request>>]>([
    ['onReplay', { onReplay: endless }],
    ['upgrade', { version: '2', upgrade: endless }],
  ])('%s without an end has one, at the deadline', async (_name, options) => {
    await route({ version: '1' })(post('k'))
    const refused = await route({ version: '1', deadline, ...options })(post('k'))
    expect([refused.status, await refused.json()]).toMatchObject([503, { code: 'ONCE_DEADLINE' }])
  })

  test('so has parse of a batched route', async () => {
    const statement = { sql: 'insert into contract_effect (route, key) values ($1, $2)', values: ['x', 'k'] }
    const work = { parse: endless, statement: () => statement, respond: () => ({}) }
    const refused = await idempotency(world.once, { scope: 'global', deadline }).batched(work)(post('k'))
    expect([refused.status, await refused.json()]).toMatchObject([503, { code: 'ONCE_DEADLINE' }])
    expect(await world.effects('k')).toBe(0)
  })
})

describe('expired', () => {
  const expire = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 1100))

  test('draft item 7: after replayFor a retry is 410, or runs again', async () => {
    const gone = route({ replayFor: '1s', goneFor: '1h' })
    const rerun = route({ replayFor: '1s', goneFor: '1h', expired: 'rerun' })
    await gone(post('a'))
    await rerun(post('b'))
    await expire()
    const refused = await gone(post('a'))
    expect([refused.status, await codeOf(refused)]).toEqual([410, 'ONCE_GONE'])
    expect((await rerun(post('b'))).headers.get('idempotent-replayed')).toBe(null)
    expect([world.runs('a'), world.runs('b')]).toEqual([1, 2])
  })

  test('draft item 15: what is past its time is swept, and the key is new', async () => {
    const handler = route({ replayFor: '1s', goneFor: '1ms' })
    await handler(post('a'))
    await expire()
    expect((await world.once.sweep()).records).toBe(1)
    await handler(post('a'))
    expect(world.runs('a')).toBe(2)
  })
})

describe('fingerprint', () => {
  test('draft items 9 and 16: the whole request, selected members, selected headers, or a digest', async () => {
    const whole = route({})
    await whole(post('a', { amount: 1, at: 1 }))
    expect((await whole(post('a', { amount: 1, at: 2 }))).status).toBe(422)

    for (const options of [{ ignore: ['/at'] }, { fingerprint: { ignore: ['/at'] } }] as const) {
      const key = `b${JSON.stringify(options).length}`
      const some = route(options)
      await some(post(key, { amount: 1, at: 1 }))
      expect((await some(post(key, { amount: 1, at: 2 }))).status).toBe(200)
      expect((await some(post(key, { amount: 2, at: 2 }))).status).toBe(422)
    }

    const headers = route({ fingerprint: { headers: ['X-Api-Version'] } })
    await headers(post('c', {}, { 'x-api-version': '1' }))
    expect((await headers(post('c', {}, { 'x-api-version': '1', 'x-trace': '2' }))).status).toBe(200)
    expect((await headers(post('c', {}, { 'x-api-version': '2' }))).status).toBe(422)

    const digest = route({ fingerprint: { digest: true } })
    const digestOf = (body: unknown, name = 'sha256'): string =>
      `${name.replace('sha', 'sha-')}=:${createHash(name).update(JSON.stringify(body)).digest('base64')}:`
    const one = digestOf({ large: 1 })
    expect((await digest(post('d', { large: 1 }, { 'content-digest': one }))).status).toBe(200)
    expect((await digest(post('d', { large: 1 }, { 'content-digest': one }))).status).toBe(200)
    expect((await digest(post('d', { large: 2 }, { 'content-digest': digestOf({ large: 2 }) }))).status).toBe(422)
    expect((await digest(post('e', { large: 2 }, { 'repr-digest': digestOf({ large: 2 }, 'sha512') }))).status).toBe(
      200,
    )
    // A digest that is not the body's is no digest.
    expect((await digest(post('d', { large: 2 }, { 'content-digest': one }))).status).toBe(400)
    expect((await digest(post('d', { large: 1 }, { 'content-digest': 'md5=x' }))).status).toBe(400)
  })
})

describe('the header', () => {
  test('another name by option, a format by option', async () => {
    const named = route({ header: 'X-Request-Id' })
    expect((await named(post('k'))).status).toBe(400)
    expect((await named(post('k', {}, { 'x-request-id': 'r' }))).status).toBe(200)
    const uuid = route({ keyFormat: 'uuid' })
    expect(await codeOf(await uuid(post('short')))).toBe('ONCE_KEY_INVALID')
    expect((await uuid(post('8e03978e-40d5-43dd-bc93-6894a57f9324'))).status).toBe(200)
    const long = route({ keyFormat: { minLength: 16 } })
    expect((await long(post('fifteen-chars-x'))).status).toBe(400)
    expect((await long(post('sixteen-chars-xx'))).status).toBe(200)
  })

  test('other methods by option', async () => {
    const handler = route({ methods: ['put', 'DELETE'] })
    const send = (method: string): Request =>
      new Request('http://shop.test/x', { method, headers: { 'idempotency-key': 'k' } })
    await handler(send('DELETE'))
    expect((await handler(send('DELETE'))).headers.get('idempotent-replayed')).toBe('true')
    await expect(handler(send('POST'))).rejects.toThrow('ONCE_UNSUPPORTED')
  })
})

test('a fetch handler is run again after a serialization failure, with its body', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const handler = idempotent(async (request, { key, tx }) => {
    await tx.query('insert into contract_effect (route, key) values ($1, $2)', ['x', key])
    const text = await request.text()
    if (world.ran(key) < 3) throw Object.assign(new Error('busy'), { code: 'SQLITE_BUSY', rawCode: 5, errcode: 5 })
    return new Response(text)
  })
  const response = await handler(post('k', { a: 1 }))
  expect([response.status, await response.text()]).toEqual([200, '{"a":1}'])
  expect([world.runs('k'), await world.effects('k')]).toEqual([3, 1])
})

test('what a handler throws is the host’s to answer, and the key is free', async () => {
  const handler = route({}, () => {
    throw new Error('mine')
  })
  for (let i = 0; i < 2; i++) await expect(handler(post('k'))).rejects.toThrow('mine')
  expect([world.runs('k'), await world.effects('k')]).toEqual([2, 0])
})

test('every option that makes no sense is refused when the program starts', () => {
  const bad: Record<string, unknown>[] = [
    { scope: undefined },
    { scope: '' },
    { scope: 'tenant' },
    { require: true },
    { header: 'a b' },
    { methods: ['PO ST'] },
    { keyFormat: { minLength: 0 } },
    { ignore: ['no-slash'] },
    { fingerprint: { header: [] } },
    { keepHeaders: ['Set-Cookie'] },
    { keepHeaders: ['bad name'] },
    { keepHeaders: ['WWW-Authenticate'] },
    { keep4xx: 'yes' },
    { refusals: 'keep' },
    { refusals: 'release', keep4xx: true },
    { refusals: 'store', keep4xx: true },
    { keepHeaders: ['Original-Request-Id'] },
    { keepHeaders: ['Idempotency-Key'] },
    { streams: 'maybe' },
    { onReplay: 1 },
    { version: '' },
    { docs: 'a b' },
  ]
  for (const options of bad) expect(() => route(options as never)).toThrow('ONCE_OPTION_INVALID')
  expect(() => idempotency({} as never, { scope: 'global' })).toThrow('ONCE_OPTION_INVALID')
})

test('a scope that is empty at run time is an error, never global', async () => {
  // A promise that fails, and that nobody waits for, would end the process.
  const scopes = ['', undefined, null, 7].map((scope) => () => scope)
  for (const scope of [...scopes, () => Promise.reject(new Error('no user'))]) {
    const response = await route({ scope: scope as never })(post('k'))
    expect([response.status, await codeOf(response)]).toEqual([500, 'ONCE_SCOPE_EMPTY'])
  }
  expect(world.runs('k')).toBe(0)
})
