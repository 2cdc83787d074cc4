import { setTimeout as sleep } from 'node:timers/promises'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import { HTTPException } from 'hono/http-exception'
import { validator } from 'hono/validator'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { effect, openWorld, type World } from '../../test/http/world.ts'
import { idempotency } from '../entry/hono.ts'
import { final } from '../index.ts'

let world: World
beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(() => world.close())
const init = (key: string, body = '{"amount":5}'): RequestInit => ({
  method: 'POST',
  headers: { 'idempotency-key': key, 'content-type': 'application/json', origin: 'http://a.test' },
  body,
})

test('validators before and after, headers of others, cookies of the handler', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const check = validator('json', (value: { amount: number }) => value)
  const app = new Hono()
  app.use(cors({ origin: 'http://a.test' }))
  app.post('/after', idempotent(), check, async (c) => {
    await effect(c.var.once.tx, c.var.once.key)
    c.header('set-cookie', 'a=b')
    return c.json({ amount: c.req.valid('json').amount }, 201)
  })
  app.post('/before', check, idempotent(), async (c) => {
    await effect(c.var.once.tx, c.var.once.key)
    return c.json({ amount: c.req.valid('json').amount, again: await c.req.json() }, 201)
  })
  for (const path of ['/after', '/before']) {
    const first = await app.request(path, init(path))
    const second = await app.request(path, init(path))
    expect([first.status, second.status]).toEqual([201, 201])
    expect(await second.text()).toBe(await first.text())
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(second.headers.get('access-control-allow-origin')).toBe('http://a.test')
    expect(second.headers.get('set-cookie')).toBe(null)
    if (path === '/after') expect(first.headers.get('set-cookie')).toBe('a=b')
    expect(await world.effects(path)).toBe(1)
  }
  world.failNextCommit('lost')
  const failed = await app.request('/after', init('fails'))
  expect([failed.status, failed.headers.get('set-cookie')]).toEqual([503, null])
  expect(failed.headers.get('access-control-allow-origin')).toBe('http://a.test')
})

test('HTTPException, final and onError decide', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const app = new Hono()
  app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text('handled', 500)))
  app.post('/:how', idempotent(), async (c) => {
    world.ran(c.var.once.key)
    await effect(c.var.once.tx, c.var.once.key)
    const how = c.req.param('how')
    if (how === 'exception') throw new HTTPException(402, { message: 'declined' })
    if (how === 'final') throw final({ status: 402, body: 'declined' })
    throw new Error('x')
  })
  for (const [how, status, runs] of [
    ['exception', 402, 1],
    ['final', 402, 1],
    ['error', 500, 2],
  ] as const) {
    for (let i = 0; i < 2; i++) expect((await app.request(`/${how}`, init(how))).status).toBe(status)
    expect([how, world.runs(how), await world.effects(how)]).toEqual([how, runs, 0])
  }
})

test('a leased route without commit is an error on the first call', async () => {
  const idempotent = idempotency(world.once, { scope: 'global' })
  const app = new Hono()
  app.post('/x', idempotent({ lease: '5s' }), (c) => c.text('x'))
  expect(await (await app.request('/x', init('k'))).json()).toMatchObject({ code: 'ONCE_NOT_COMMITTED' })
})

test('a leased route: a commit that fails is answered by us, unless the handler makes something else of it', async () => {
  const idempotent = idempotency(world.once, { scope: 'global', deadline: '100ms' })
  const app = new Hono()
  app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text('handled', 500)))
  app.post('/:how', idempotent({ lease: '5s' }), async (c) => {
    const { commit } = c.var.once
    const committing = commit(async ({ tx, key }) => {
      await effect(tx, key)
      await sleep(300)
      return c.text('made')
    })
    if (c.req.param('how') === 'as it is') return committing
    return committing.catch(() => Promise.reject(new HTTPException(502, { message: 'not now' })))
  })
  const failed = await app.request('/as it is', init('k'))
  expect([failed.status, failed.headers.get('retry-after'), await failed.json()]).toEqual([
    503,
    '1',
    expect.objectContaining({ code: 'ONCE_DEADLINE' }),
  ])
  const other = await app.request('/other', init('other'))
  expect([other.status, await other.text()]).toEqual([502, 'not now'])
  expect([await world.effects('k'), await world.effects('other')]).toEqual([0, 0])
})
