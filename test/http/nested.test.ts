import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx } from './world.ts'

describe('a protected route inside another', () => {
  const place = worldOfEachTest()

  it.each(['global', 'tenant'])('is one 500, without effect (inner scope %s)', async (scope) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(place.world.once, { scope: 'global', deadline: '600ms' })())
    app.use(onKoa(place.world.once, { scope: scope === 'global' ? scope : () => scope, deadline: '600ms' })())
    app.use(async (ctx) => {
      const { tx, key } = ctx.state['once'] as { tx: QueryTx; key: string }
      await effect(tx, key)
      ctx.status = 201
      ctx.body = { made: true }
    })
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const client = new Client(place.started.base)
    for (let n = 0; n < 2; n++) {
      const seen = await Promise.race([client.send({ key: 'k' }), sleep(3000).then(() => ({ status: 0 }))])
      expect(seen.status).toBe(500)
    }
    expect(await place.world.effects('k')).toBe(0)
  })
})
