import { Hono } from 'hono'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { AROUND, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { effect, openWorld, type QueryTx, type Started, type World } from './world.ts'

const isMissing = 'missing' in inject('servers').postgres

const NAMES = [
  'create table names (name text unique deferrable initially deferred)',
  `insert into names values ('taken')`,
]

describe.skipIf(isMissing).each([
  {
    what: 'what the database refuses at the commit is no trouble of the store',
    tables: NAMES,
    statement: `insert into names values ('taken')`,
    problem: { status: 500, code: 'ONCE_ROLLED_BACK', retryable: false },
  },
  {
    what: 'a session that the server ends under a handler is trouble of the store',
    tables: [],
    statement: 'select pg_terminate_backend(pg_backend_pid())',
    problem: { status: 503, code: 'ONCE_STORE_UNAVAILABLE', retryable: true },
  },
])('$what', ({ tables, statement, problem }) => {
  let world: World
  let started: Started | undefined
  beforeEach(async () => {
    world = await openWorld('postgres')
    for (const sql of tables) await world.query(sql)
  })
  afterEach(async () => {
    await started?.close()
    started = undefined
    await world.close()
  })

  const work = async ({ tx, key }: { tx: QueryTx; key: string }): Promise<void> => {
    await effect(tx, key)
    await tx.query(statement)
  }

  it.each(Object.entries(AROUND))('%s', async (_name, open) => {
    const handler: RawHandler = async (res, op) => {
      await work(op)
      res.statusCode = 201
      res.end('made')
    }
    started = await open(world, () => {}, handler)
    const client = impatientClient(started)
    const key = client.newKey()
    for (let n = 0; n < 2; n++) expect(JSON.parse((await client.send({ key })).text)).toMatchObject(problem)
    expect(await world.effects(key)).toBe(0)
  })

  it('fetch and Hono', async () => {
    const onWeb = onFetch(world.once, { scope: 'global' })(async (_request, op) => {
      await work(op)
      return new Response('made')
    })
    const app = new Hono()
    app.post('/orders', onHono(world.once, { scope: 'global' })(), async (c) => {
      await work(c.var.once)
      return c.text('made')
    })
    for (const serve of [onWeb, (request: Request) => app.request(request)]) {
      const headers = { 'idempotency-key': crypto.randomUUID() }
      const seen = await serve(new Request('http://local/orders', { method: 'POST', headers }))
      expect(await seen.json()).toMatchObject(problem)
      expect(await world.effects(headers['idempotency-key'])).toBe(0)
    }
  })
})

describe.skipIf(isMissing)("an error of the handler's that only sounds like a lost session", () => {
  let world: World
  let started: Started | undefined
  beforeEach(async () => {
    world = await openWorld('postgres')
  })
  afterEach(async () => {
    await started?.close()
    started = undefined
    await world.close()
  })

  it.each(Object.entries(AROUND))('is answered by the framework: %s', async (_name, open) => {
    const handler: RawHandler = async (_res, op) => {
      await effect(op.tx, op.key)
      // A payment provider has hung up.
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })
    }
    started = await open(world, () => {}, handler)
    const client = impatientClient(started)
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const { status, text } = await client.send({ key })
      expect(status).toBe(500)
      expect(text).not.toContain('ONCE_')
    }
    expect(await world.effects(key)).toBe(0)
  })
})
