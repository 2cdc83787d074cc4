import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../../test/http/world.ts'
import { idempotency } from '../entry/fetch.ts'
import { final } from '../index.ts'
import { instanceOf } from '../once/instance.ts'
import type { IdempotencyOptions } from './options.ts'

let world: World
beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(() => world.close())

const key1 = { id: '2026-01', secret: new Uint8Array(32).fill(1) }

function route(options: Partial<IdempotencyOptions<Request>>): (request: Request) => Promise<Response> {
  const idempotent = idempotency(world.once, { scope: 'global', ...options })
  return idempotent(() => Response.json({ n: 1 }))
}

function post(key: string, headers: Record<string, string>): Request {
  return new Request('http://shop.test/charges', {
    method: 'POST',
    headers: { 'idempotency-key': key, 'content-type': 'application/json', ...headers },
    body: '{}',
  })
}
describe('refusals and echoes', () => {
  const named = (key: string, id: string): Request => post(key, { 'x-request-id': id })

  test('batched: a refusal is released, a final one is stored, and a replay names its first request', async () => {
    const idempotent = idempotency(world.once, { scope: 'global', refusals: 'release' })
    const batched = (respond: () => { status: number }) =>
      idempotent.batched({
        statement: () => ({
          sql: 'insert into contract_effect (route, key) values ($1, $2)',
          values: ['x', 'batched'],
        }),
        respond,
      })
    const refused = batched(() => ({ status: 402 }))
    for (const id of ['a', 'b']) {
      const response = await refused(named('released', id))
      expect([response.status, response.headers.get('idempotent-replayed')]).toEqual([402, null])
    }
    const last = batched(() => {
      throw final({ status: 402 })
    })
    expect((await last(named('final', 'a'))).headers.get('original-request-id')).toBe(null)
    const replay = await last(named('final', 'b'))
    expect([replay.status, replay.headers.get('original-request-id')]).toEqual([402, 'a'])
    expect(replay.headers.get('idempotency-key')).toBe('final')
    expect(await world.effects('batched')).toBe(0)
  })

  test('the first id is sealed with the rest, and one that is no id is not kept', async () => {
    const handler = route({ encrypt: { keys: [key1] } })
    await handler(named('k', 'first'))
    // As in another process: nothing is remembered here.
    instanceOf(world.once).core.cache.clear()
    expect((await handler(named('k', 'second'))).headers.get('original-request-id')).toBe('first')
    for (const [key, id] of [
      ['space', 'a b'],
      ['long', 'x'.repeat(201)],
    ] as const) {
      await handler(named(key, id))
      expect((await handler(named(key, id))).headers.get('original-request-id')).toBe(null)
    }
  })

  test('a key in a header of another name is said again in that one', async () => {
    const handler = route({ header: 'X-Key' })
    const { headers } = await handler(post('ignored', { 'x-key': 'mine' }))
    expect([headers.get('x-key'), headers.get('idempotency-key')]).toEqual(['mine', null])
  })

  test('the policy says what is not stored', () => {
    const of = (refusals: 'store' | 'release') => idempotency(world.once, { scope: 'global', refusals }).policy()
    expect(of('release').notStored).toEqual(['4XX', '5XX'])
    expect(of('store').notStored).toContain('429')
    expect(of('store').replay.original).toBe('Original-Request-Id')
  })
})
