import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import Router from '@koa/router'
import Koa from 'koa'
import { idempotency } from '../../../src/entry/koa.ts'
import { type ContractAnswer, contractBatched } from '../../../src/testing/http-contract/index.ts'
import { listen, type Started, type World } from '../world.ts'
import { piecesOf, userOf } from './parts.ts'

export function startKoa({ once, routes }: World): Promise<Started> {
  const app = new Koa()
  app.silent = true
  const router = new Router()
  const idempotent = idempotency(once, { scope: (ctx) => userOf(ctx.headers) })
  for (const route of routes) {
    if (route.lease === undefined) {
      router.register(route.path, ['POST', 'PATCH', 'DELETE'], [
        idempotent(route.options),
        async (ctx: Koa.Context) => {
          const answer = await route.handle({ body: await text(ctx.req), user: '' }, ctx.state['once'])
          if (answer) send(ctx, answer)
        },
      ] as never)
    } else {
      const { lease } = route
      router.register(route.path, ['POST', 'PATCH', 'DELETE'], [
        idempotent({ ...route.options, lease }),
        async (ctx: Koa.Context) => {
          const seen = { body: await text(ctx.req), user: '' }
          await route.before(ctx.state['once'], seen)
          await ctx.state['once'].commit(async (inner: never) => send(ctx, await route.commit(inner, seen)))
        },
      ] as never)
    }
  }
  router.post('/batched', idempotent.batched(contractBatched) as never)
  router.get('/plain', idempotent() as never, (ctx) => {
    ctx.body = 'plain'
  })
  router.get(idempotent.policyPath, idempotent.policyHandler as never)
  app.use(router.routes())
  const callback = app.callback()
  return listen(createServer((req, res) => void callback(req, res)))
}

function send(ctx: Koa.Context, answer: ContractAnswer): void {
  ctx.status = answer.status
  const { body } = answer
  if (answer.pieces) ctx.body = Readable.from(piecesOf(answer))
  else ctx.body = body instanceof Uint8Array ? Buffer.from(body) : (body ?? null)
  ctx.status = answer.status
  ctx.remove('content-type')
  for (const [name, value] of answer.headers ?? []) ctx.set(name, value)
}
