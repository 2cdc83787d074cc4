import { Redis } from 'ioredis'
import { createClient, RESP_TYPES } from 'redis'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openRedis, REDIS_CLIENTS, type OpenRedis } from '../../../test/support/redis-clients.ts'
import { redisStore } from '../../entry/redis-store.ts'
import { effectivelyOnce, inProcessSink } from '../../index.ts'
import { answerOf, claimOf, finishOne, isLater, leaseOf, newKey, pass, winLease } from '../../testing/contract/make.ts'
import { itemOf, letterOf } from '../../testing/contract/inbox-make.ts'
import { storeContract } from '../../testing/contract/store-contract.ts'
import { ASKED_OF_LEASES as ASKED } from '../../../test/redis/asked.ts'

const server = inject('servers').redis
const url = 'url' in server ? server.url : ''

for (const of of REDIS_CLIENTS) {
  describe.skipIf(!url)(`the leased contract on Redis, ${of}`, () => {
    let open: OpenRedis
    beforeAll(async () => {
      open = await openRedis(of, 'redis', url)
    })
    afterAll(() => open.close())

    for (const { name, run } of storeContract(async () => ({
      store: redisStore(open.client),
      close: async () => {},
    }))) {
      if (ASKED.includes(name)) test(name, async () => expect(await run()).toBeUndefined())
    }
  })
}

describe.skipIf(!url)('the Redis store', () => {
  let redis: Redis
  beforeAll(() => {
    redis = new Redis(url)
  })
  afterAll(() => redis.disconnect())
  const keyOf = (id: string): string => `effectively-once:{${id}}`

  test('has no time to live while it runs, and one with its answer', async () => {
    const store = redisStore(redis)
    const claim = claimOf(newKey())
    const { token } = await winLease(store, claim, 10)
    await pass(30)
    expect(await redis.pttl(keyOf(claim.id))).toBe(-1)
    expect(await store.leases.finish({ id: claim.id, token, claim, answer: answerOf('1') })).toBe(true)
    const left = await redis.pttl(keyOf(claim.id))
    expect(left).toBeGreaterThan(claim.replayForMs + claim.goneForMs - 60_000)
  })

  test('a key that was soon forgotten gets a higher token, whatever the clock says', async () => {
    const store = redisStore(redis)
    const claim = claimOf(newKey(), 1, { replayForMs: 1, goneForMs: 0 })
    await finishOne(store, claim)
    // As if the token came from a server whose clock was ahead.
    const text = (await redis.hget(keyOf(claim.id), 'r')) ?? ''
    await redis.hset(keyOf(claim.id), 'r', text.replace(/^2;\d+/, '2;9000000000000000'))
    await pass(10)
    const { record: seen } = await store.read({ id: claim.id })
    const next = await store.leases.takeOver({ ...leaseOf(claim), seen: seen! })
    expect(isLater(next?.token ?? '0', '9000000000000000')).toBe(true)
  })

  /** Loses the first reply to a command that the pattern matches: the server has run it. */
  function losing(text: string): Redis {
    let lost = false
    const call = async (command: string, ...args: string[]): Promise<unknown> => {
      const reply = await redis.call(command, ...args)
      if (lost || !args.some((arg) => arg.includes(text))) return reply
      lost = true
      throw new Error('Connection is closed.')
    }
    return { status: 'ready', call } as unknown as Redis
  }

  test('a claim whose reply was lost is recognised when it is sent again', async () => {
    const claim = claimOf(newKey())
    const { claimed } = await redisStore(losing(claim.fingerprint)).leases.claim(leaseOf(claim))
    expect(claimed).toMatchObject({ attempt: 1 })
    // Another caller's is not.
    expect((await redisStore(redis).leases.claim(leaseOf(claim))).claimed).toBeNull()
  })

  test('an answer whose acknowledgement was lost is recognised, too', async () => {
    const claim = claimOf(newKey())
    const { token } = await winLease(redisStore(redis), claim)
    const finish = redisStore(losing(token)).leases.finish({ id: claim.id, token, claim, answer: answerOf('1') })
    expect(await finish).toBe(true)
    const again = redisStore(redis).leases.finish({ id: claim.id, token, claim, answer: answerOf('2') })
    expect(await again).toBe(false)
  })

  test('the start of a call that the server gets once more, late, leaves the recorded result', async () => {
    const claim = claimOf(newKey())
    const step = { id: claim.id, name: 'pay' }
    const sent: [string, string[]][] = []
    const call = (command: string, ...args: string[]): Promise<unknown> => {
      sent.push([command, args])
      return redis.call(command, ...args)
    }
    const store = redisStore({ status: 'ready', call } as unknown as Redis)
    const { token, life } = await winLease(store, claim)
    const before = sent.length
    expect(await store.leases.startStep({ ...step, token, life })).toBe(true)
    const start = sent.slice(before)
    expect(await store.leases.finishStep({ ...step, token, life, result: '"paid"' })).toBe(true)
    // A connection that the client has given up delivers its bytes.
    for (const [command, args] of start) await redis.call(command, ...args).catch(() => {})
    expect(await store.leases.steps({ id: claim.id, life })).toEqual([{ name: 'pay', state: 'done', result: '"paid"' }])
  })

  test('rows that were written are recognised, even if others wrote before they are sent again', async () => {
    const consumer = newKey()
    const of = (id: string) => ({ id, counted: false, error: 'no', fingerprint: 'f' })
    const others = redisStore(redis)
    const lost = { first: true }
    const call = async (command: string, ...args: string[]): Promise<unknown> => {
      const reply = await redis.call(command, ...args)
      if (!lost.first || !args.includes('tries:a') || !args.some((arg) => arg.startsWith('{'))) return reply
      lost.first = false
      for (const id of ['b', 'c']) await others.inbox?.failed({ consumer, failures: [of(id)] })
      throw new Error('Connection is closed.')
    }
    const store = redisStore({ status: 'ready', call } as unknown as Redis)
    expect(await store.inbox?.failed({ consumer, failures: [of('a')] })).toMatchObject([{ attempts: 1 }])
    expect(lost.first).toBe(false)
    expect(await others.inbox?.tries({ consumer, ids: ['a', 'b', 'c'] })).toMatchObject([
      { attempts: 1 },
      { attempts: 1 },
      { attempts: 1 },
    ])
  })

  test('tries wait for no replica: a count that is written and then refused would be written again', async () => {
    const of = { consumer: newKey(), ids: ['a'] }
    const { inbox } = redisStore(redis, { replicas: 1 })
    expect(await inbox?.trying(of)).toMatchObject([{ attempts: 1, unfinished: 0 }])
    await inbox?.untry(of)
    expect(await inbox?.tries(of)).toEqual([])
    const failure = { id: 'a', counted: false, error: 'no', fingerprint: 'f' }
    expect(await inbox?.failed({ ...of, failures: [failure] })).toMatchObject([{ attempts: 1 }])
    await inbox?.applied?.(of)
    expect(await inbox?.tries(of)).toEqual([])
    // Letters and positions do wait.
    const positions = [{ partition: 'p', next: '1' }]
    const passed = inbox?.pass({ ...of, source: 's', positions })
    await expect(passed).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
  })

  test('the starts of a redriven letter wait for no replica, either', async () => {
    const consumer = newKey()
    const { inbox, redrives } = redisStore(redis)
    const times = { inboxForMs: 1e9, rememberForMs: 1e9, lettersForMs: 1e9 }
    await inbox?.open({ consumer, ...times })
    await inbox?.park({ consumer, letters: [letterOf(itemOf(consumer, 'a'))], positions: null, deadlineMs: 1_000 })
    const pace = { canary: 0, canaryStops: false, rate: 50, pauseAt: 1, prepare: false, force: false, reorder: false }
    await redrives?.create({ filter: { consumer }, by: 'ada', why: 'mended', asked: '{}', ...pace })
    const lease = await redrives?.claim({ consumer, leaseMs: 60_000 })
    const params = { ...lease!, leaseMs: 60_000, starting: [1], ended: [] }
    expect(await redisStore(redis, { replicas: 1 }).redrives?.beat(params)).toMatchObject({ state: 'running' })
    const page = { redrive: params.redrive, outcomes: ['pending'] as const, after: 0, limit: 1 }
    expect(await redrives?.items(page)).toMatchObject([{ starts: 1 }])
  })

  test.each([2, 3] as const)('a client that gives bytes instead of text, RESP %d', async (RESP) => {
    const client = createClient({ url, RESP, commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } } })
    await client.connect()
    const store = redisStore(client)
    const claim = claimOf(newKey())
    const first = await winLease(store, claim, 1)
    const { id } = claim
    await store.leases.finishStep({ id, token: first.token, life: first.life, name: 'mail', result: '1' })
    expect(await store.leases.steps({ id, life: first.life })).toEqual([{ name: 'mail', state: 'done', result: '1' }])
    await pass(10)
    const { record: seen } = await store.read({ id })
    const second = await store.leases.takeOver({ ...leaseOf(claim), seen: seen! })
    expect(second).toMatchObject({ life: first.life, attempt: 2 })
    expect(await store.leases.finish({ id, token: second!.token, claim, answer: answerOf('1') })).toBe(true)
    expect((await store.read({ id })).answer).toMatchObject({ status: 200 })
    client.destroy()
  })

  test('scripts that the server has forgotten are sent again', async () => {
    await redis.script('FLUSH')
    expect((await finishOne(redisStore(redis), claimOf(newKey()))).attempt).toBe(1)
  })

  test('an answer that is not UTF-8 comes back byte by byte', async () => {
    const store = redisStore(redis)
    const body = Uint8Array.from({ length: 256 }, (_, i) => i)
    const claim = claimOf(newKey())
    await finishOne(store, claim, { status: 200, headers: [], body, kept: true })
    expect(Buffer.compare((await store.read({ id: claim.id })).answer?.body ?? Buffer.of(), body)).toBe(0)
  })

  test('shows and releases an operation by its key', async () => {
    const store = redisStore(redis)
    const claim = claimOf(newKey())
    const about = { namespace: 'shop', route: 'POST /pay', label: null }
    const { claimed } = await store.leases.claim({ ...leaseOf(claim), about })
    expect(await store.leases.show?.({ id: claim.id })).toMatchObject({ operation: { ...about, state: 'running' } })
    expect(await store.leases.evict?.(claim)).toBe(true)
    expect(await store.leases.release({ id: claim.id, token: claimed!.token })).toBe(false)
    expect(await store.leases.show?.({ id: claim.id })).toMatchObject({ operation: { state: 'abandoned' } })
  })
})

describe('what the Redis store refuses', () => {
  const answering = (info: string): Redis => ({ status: 'ready', call: async () => info }) as unknown as Redis
  const MEMORY = '# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n'

  test.each([
    ['Redis 6.2.14', 'redis_version:6.2.14\r\n'],
    ['Redis 5.0.7', 'redis_version:5.0.7\r\n'],
    ['an unknown version', ''],
  ])('a server that is too old: %s', async (name, version) => {
    const store = redisStore(answering(`# Server\r\n${version}${MEMORY}`))
    const detail = `The redis store needs Redis 7 or later, or Valkey. This server is ${name}`
    const refused = { code: 'ONCE_UNSUPPORTED', message: expect.stringContaining(detail) }
    await expect(store.leases.claim(leaseOf(claimOf(newKey())))).rejects.toMatchObject(refused)
    await expect(store.check?.()).rejects.toMatchObject(refused)
  })

  test.each([
    'redis_version:7.0.0\r\n',
    'redis_version:8.6.1\r\n',
    'redis_version:10.0.0\r\n',
    'redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n',
    'server_name:valkey\r\nvalkey_version:10.0.0\r\n',
  ])('but not a later server: %j', async (version) => {
    await expect(redisStore(answering(`# Server\r\n${version}${MEMORY}`)).check?.()).resolves.toBeUndefined()
  })

  test.each(['allkeys-lru', 'volatile-ttl'])('a server that evicts keys: %s', async (policy) => {
    const store = redisStore(answering(`redis_version:7.2.4\r\nmaxmemory_policy:${policy}\r\n`))
    const claim = store.leases.claim(leaseOf(claimOf(newKey())))
    await expect(claim).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED', message: expect.stringContaining(policy) })
  })

  test('atomic and batched operations and the outbox, with the sentence that says what to use', async () => {
    const once = effectivelyOnce({ namespace: 'shop', store: redisStore(answering('')), guard: 'off' })
    const atomic = once.run({ scope: 'a', key: 'k', input: 1 }, async () => 1)
    await expect(atomic).rejects.toThrow(
      "ONCE_UNSUPPORTED The redis store has no transactions: give the operation a lease, such as { lease: '30s' }",
    )
    const batched = () => once.batched({ statement: () => ({ sql: '', values: [] }), respond: () => 1 })
    expect(batched).toThrow('The redis store has no batches: use run(), or a SQL store')
    const relay = () => once.relay({ to: inProcessSink(async () => {}) })
    expect(relay).toThrow('The redis store has no outbox: send your messages from a step of a leased operation')
    await once.close()
  })

  test('what is not a client, and options that are not valid', () => {
    expect(() => redisStore({} as never)).toThrow('redisStore needs a client of ioredis or of redis')
    expect(() => redisStore(answering(''), { replicas: -1 })).toThrow('replicas must be a whole number from 0 to 16')
    expect(() => redisStore(answering(''), { prefix: 'a{b}' })).toThrow('prefix must be a text without braces')
    expect(() => redisStore(answering(''), null as never)).toThrow('the options of redisStore must be an object')
    expect(() => redisStore(answering(''), { replica: 1 } as never)).toThrow("unknown option 'replica'")
  })
})
