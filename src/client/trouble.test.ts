import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { answer, PAY, post, scripted, VirtualTime } from '../../test/client/support/scripted.ts'
import { idempotentClient } from './client.ts'
import { memoryStorage } from './memory.ts'
import type { CallStorage, HeadersOf } from './types.ts'

const lost = new TypeError('fetch failed')
const error = (code: string, part: object = {}): unknown =>
  expect.objectContaining({ name: 'OnceError', code, ...part })
/** Real time that passes without virtual time. */
const SLOW_MS = 2_000
const never = (): Promise<never> => new Promise(() => {})

describe('headers of the program', () => {
  it('that never come end with the time limit of the attempt, and nothing was sent', async () => {
    const { client, sent } = scripted([], { headers: never, retry: { attempts: 2 } })
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(
      error('ONCE_CALL_PENDING', { message: 'ONCE_CALL_PENDING nothing was done: it was tried 2 times' }),
    )
    expect([sent, await client.state('pay 7')]).toEqual([[], 'none'])
  })

  it('that never come end with the signal', async () => {
    const giving = new AbortController()
    const headers = (): Promise<never> => {
      giving.abort()
      return never()
    }
    const { client } = scripted([], { headers, timeout: '10m', deadline: '20m' })
    const call = client.fetch(PAY, post(), { signal: giving.signal })
    await expect(call).rejects.toThrow('it was aborted')
  })

  it('that fail once are asked for again, and the origin is not blamed', async () => {
    let asked = 0
    const headers = (): HeadersOf => {
      if (++asked < 3) throw new Error('no token')
      return { authorization: 'Bearer 1' }
    }
    const { client, sent } = scripted([], { headers, breaker: { failures: 1 } })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect(sent.map(({ headers: of }) => of.get('authorization'))).toEqual(['Bearer 1'])
  })

  it('may be an instance of Headers', async () => {
    const { client, sent } = scripted([], { headers: () => new Headers({ authorization: 'Bearer 1' }) })
    await client.fetch(PAY, post())
    expect(sent[0]?.headers.get('authorization')).toBe('Bearer 1')
  })
})

it('a policy that never comes does not keep a caller that gives up', async () => {
  const giving = new AbortController()
  let asked = 0
  const fetch = async (url: string): Promise<Response> => {
    if (!url.includes('well-known')) return answer(503)
    asked += 1
    giving.abort()
    return never()
  }
  const { client, time } = scripted([], { fetch, timeout: '1h', deadline: '2h' })
  await expect(client.fetch(PAY, post(), { signal: giving.signal })).rejects.toThrow('it was aborted')
  expect([asked, time.passed.every((ms) => ms < 60_000)]).toEqual([1, true])
})

it('an outage costs no more than the retry budget', async () => {
  const of = (status: number, length: number): Response[] => Array.from({ length }, () => answer(status))
  const steps = [...of(503, 60), ...of(201, 5), answer(503)]
  const { client, sent } = scripted(steps, { retry: { attempts: 2, budget: 2 }, breaker: false })
  for (let n = 0; n < 58; n++) await client.fetch(PAY, post()).catch(() => {})
  expect(sent).toHaveLength(60)
  // Each answer gives a fifth of a token back.
  for (let n = 0; n < 5; n++) await client.fetch(PAY, post())
  expect((await client.fetch(PAY, post())).status).toBe(201)
})

it('a wait for the breaker is no retry, so it takes nothing from the retry budget', async () => {
  const steps = Array.from({ length: 8 }, () => answer(503))
  const { client, sent } = scripted(steps, { retry: { budget: 4 }, breaker: { failures: 1, rest: '1s' } })
  await expect(client.fetch(PAY, post())).rejects.toThrow('its budget is empty')
  expect(sent).toHaveLength(5)
})

describe('a storage', () => {
  it('that throws at once does not hide the answer, nor does `onError`', async () => {
    const storage: CallStorage = {
      ...memoryStorage(),
      swap: () => {
        throw new Error('disk full')
      },
    }
    const onError = (): void => {
      throw new Error('no log')
    }
    expect((await scripted([], { storage, onError }).client.fetch(PAY, post())).status).toBe(201)
    const adds: CallStorage = { ...storage, add: storage.swap as never }
    await expect(scripted([], { storage: adds }).client.fetch(PAY, post())).rejects.toEqual(
      error('ONCE_STORAGE_FAILED'),
    )
  })

  it.each(['{"name":"bad', 'null', '{}', ''])(
    'with the unreadable call %s lists and resumes the others',
    async (bad) => {
      const storage = memoryStorage()
      await storage.add('bad', bad)
      const told: unknown[] = []
      const { client, sent } = scripted([lost], {
        storage,
        retry: { attempts: 1 },
        onError: (cause) => told.push(cause),
      })
      await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_CALL_PENDING'))
      expect((await client.pending()).map(({ name }) => name)).toEqual(['pay 7'])
      expect((await client.resume()).map(({ response }) => response?.status)).toEqual([201])
      expect(told[0]).toEqual(error('ONCE_STORAGE_FAILED'))
      // Its key is lost, so nothing may be sent under this name before somebody frees it.
      await expect(client.fetch(PAY, post(), { name: 'bad' })).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
      expect(sent).toHaveLength(2)
      expect([await client.forget('bad'), await client.forget('bad')]).toEqual([true, false])
      expect((await client.fetch(PAY, post(), { name: 'bad' })).status).toBe(201)
    },
  )
})

describe('a storage that stores the call and loses its reply', () => {
  it('leaves nothing to resume: the caller was told that nothing was sent', async () => {
    const storage = memoryStorage()
    let replies = 0
    const add: CallStorage['add'] = async (...of) => {
      const stored = await storage.add(...of)
      if (replies++ === 0) throw lost
      return stored
    }
    const { client, sent } = scripted([], { storage: { ...storage, add } })
    await expect(client.fetch(PAY, post())).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
    // So the caller charges again, under a new key. A resume must not charge for the first one.
    await client.fetch(PAY, post())
    expect([await client.resume(), sent.length]).toEqual([[], 1])
  })
})

describe('a storage that replaces a record and loses its reply', () => {
  /** A storage whose next swap is made, but whose reply comes only when `settle` is called. */
  function losing(settle: (made: Promise<boolean>) => Promise<boolean>) {
    const memory = memoryStorage()
    const losses = { next: 0 }
    const storage: CallStorage = {
      ...memory,
      swap(...change) {
        const made = memory.swap(...change)
        return losses.next-- > 0 ? settle(made) : made
      },
    }
    return { storage, losses }
  }

  it.each([
    ['a success', answer(201), 24 * 3_600_000, 'none'],
    ['a refusal', answer(401), 0, 'refused'],
    ['an old refusal', answer(401), 24 * 3_600_000, 'none'],
  ])('of %s leaves nothing to resume', async (_, first, ageMs, state) => {
    const { storage, losses } = losing((made) => made.then(() => Promise.reject(lost)))
    const { client, sent, time } = scripted([first], { storage })
    await client.fetch(PAY, post(), { name: 'pay 7' })
    time.nowMs += ageMs
    losses.next = 1
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
    expect([await client.resume(), sent.length, await client.state('pay 7')]).toEqual([[], 1, state])
  })

  it('of a pending call leaves the call to its first sender', async () => {
    const { storage, losses } = losing((made) => made.then(() => Promise.reject(lost)))
    const before = scripted([lost], { storage, retry: { attempts: 1 } })
    await before.client.fetch(PAY, post(), { name: 'pay 7' }).catch(() => {})
    const texts = await storage.list()
    losses.next = 1
    const time = new VirtualTime()
    const random = { ...time.random, uuid: () => 'later' }
    const after = scripted([], { storage }, Object.assign(time, { random }))
    await expect(after.client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
    expect([await storage.list(), after.sent]).toEqual([texts, []])
  })

  it('and answers after its time limit, leaves nothing to resume', async () => {
    let answers = (): void => {}
    const held = new Promise<void>((resolve) => (answers = resolve))
    const { storage, losses } = losing((made) => held.then(() => made))
    const { client, sent } = scripted([answer(401)], { storage })
    await client.fetch(PAY, post(), { name: 'pay 7' })
    losses.next = 1
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toEqual(error('ONCE_STORAGE_FAILED'))
    answers()
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect([await client.resume(), sent.length, await client.state('pay 7')]).toEqual([[], 1, 'refused'])
  })
})

describe('a storage that hangs', () => {
  it('ends the call before it is sent, and a late success of the storage leaves nothing to resume', async () => {
    const storage = memoryStorage()
    let answers = (): void => {}
    const held = new Promise<void>((resolve) => (answers = resolve))
    const add: CallStorage['add'] = (name, text) => held.then(() => storage.add(name, text))
    const { client, sent } = scripted([], { storage: { ...storage, add } })
    await expect(client.fetch(PAY, post(), { name: 'pay 7' })).rejects.toMatchObject({ code: 'ONCE_STORAGE_FAILED' })
    answers()
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect([sent, await client.pending(), await client.state('pay 7')]).toEqual([[], [], 'none'])
  })

  it.each(['rejects', 'throws'])('stops nothing else if its late call cannot be removed: swap %s', async (how) => {
    const storage = memoryStorage()
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    let answers = (): void => {}
    const held = new Promise<void>((resolve) => (answers = resolve))
    let swaps = 0
    const swap = (): Promise<boolean> => {
      swaps++
      if (how === 'throws') throw lost
      return Promise.reject(lost)
    }
    const add: CallStorage['add'] = (name, text) => held.then(() => storage.add(name, text))
    const { client } = scripted([], { storage: { ...storage, add, swap } })
    await expect(client.fetch(PAY, post())).rejects.toMatchObject({ code: 'ONCE_STORAGE_FAILED' })
    answers()
    await new Promise((resolve) => setTimeout(resolve, 10))
    process.off('unhandledRejection', note)
    expect([swaps, unhandled]).toEqual([1, []])
  })

  it('does not hide an answer that has come', async () => {
    const told: unknown[] = []
    const storage: CallStorage = { ...memoryStorage(), swap: never }
    const { client } = scripted([], { storage, onError: (cause) => told.push(cause) })
    expect((await client.fetch(PAY, post())).status).toBe(201)
    expect(told).toMatchObject([{ message: 'no answer in 30000 ms' }])
  })

  it('ends what only looks', async () => {
    const { client } = scripted([], { storage: { ...memoryStorage(), list: never } })
    for (const looking of [client.pending(), client.resume(), client.state('pay 7')])
      await expect(looking).rejects.toMatchObject({ code: 'ONCE_STORAGE_FAILED' })
  })
})

describe('two callers of one name', () => {
  const late = (): Promise<Response> => new Promise((resolve) => setTimeout(() => resolve(answer(201)), 50))

  it('give up alone: the second one', async () => {
    const { client, sent } = scripted([late], {}, new VirtualTime(SLOW_MS))
    const giving = new AbortController()
    const first = client.fetch(PAY, post(), { name: 'pay 7' })
    const second = client.fetch(PAY, post(), { name: 'pay 7', signal: giving.signal })
    setTimeout(() => giving.abort(), 5)
    expect(await Promise.race([first.then(() => 'first'), second.catch(({ code }: { code: string }) => code)])).toBe(
      'ONCE_CALL_PENDING',
    )
    expect([(await first).status, sent.length]).toEqual([201, 1])
  })

  it('give up alone: the second one at its deadline', async () => {
    let second: Promise<unknown> = never()
    const step = (): Promise<Response> => second.then(never, () => answer(201))
    const { client, sent } = scripted([step], { timeout: '1h', deadline: '2h' }, new VirtualTime(SLOW_MS))
    const first = client.fetch(PAY, post(), { name: 'pay 7' })
    second = client.fetch(PAY, post(), { name: 'pay 7', deadline: '1ms' })
    await expect(second).rejects.toThrow('the call stays pending: its caller gave up')
    expect([(await first).status, sent.length]).toEqual([201, 1])
  })

  it('give up alone: the first one at its shorter deadline', async () => {
    const { client, sent } = scripted([never, late], { timeout: '1h', deadline: '2h' }, new VirtualTime(20))
    const first = client.fetch(PAY, post(), { name: 'pay 7', deadline: '1s' })
    const second = client.fetch(PAY, post(), { name: 'pay 7' })
    await expect(first).rejects.toThrow('its deadline passed')
    expect((await second).status).toBe(201)
    expect(new Set(sent.map(({ key }) => key)).size).toBe(1)
  })

  it('give up alone: the first one, and the second sends the same key again', async () => {
    const { client, sent } = scripted([never, late], {}, new VirtualTime(SLOW_MS))
    const giving = new AbortController()
    const first = client.fetch(PAY, post(), { name: 'pay 7', signal: giving.signal })
    const second = client.fetch(PAY, post(), { name: 'pay 7' })
    setTimeout(() => giving.abort(), 20)
    await expect(first).rejects.toThrow('it was aborted')
    expect((await second).status).toBe(201)
    expect(new Set(sent.map(({ key }) => key)).size).toBe(1)
  })
})

describe('a real server', () => {
  let server: Server
  afterEach(() => void server.close())

  it('may redirect with 307: the body is sent again', async () => {
    const seen: string[] = []
    server = createServer((request, response) => {
      const parts: Buffer[] = []
      request.on('data', (part: Buffer) => parts.push(part))
      request.on('end', () => {
        const isMoved = request.url === '/charges'
        seen.push(
          `${request.url ?? ''} ${String(request.headers['idempotency-key'])} ${Buffer.concat(parts).toString()}`,
        )
        response.writeHead(isMoved ? 307 : 201, isMoved ? { location: '/charges/' } : {}).end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const client = idempotentClient({ retry: { attempts: 1 } })
    const url = `http://127.0.0.1:${port}/charges`
    expect((await client.fetch(url, { method: 'POST', body: 'ü' }, { key: 'k-1' })).status).toBe(201)
    expect(seen).toEqual(['/charges k-1 ü', '/charges/ k-1 ü'])
  })
})
