/** One service through /fetch and /hono, on the built package, for every runtime. */
import { effectivelyOnce } from 'effectively-once'
import { idempotency as onFetch } from 'effectively-once/fetch'
import { idempotency as onHono } from 'effectively-once/hono'
import { postgresJsStore } from 'effectively-once/postgres'
import { Hono } from 'hono'
import postgres from 'postgres'

export function serviceOf(url) {
  const sql = postgres(url, { max: 4, onnotice: () => {} })
  const once = effectivelyOnce({ namespace: 'runtimes', store: postgresJsStore(sql), sweep: false })
  return {
    handle: handlerOf(once),
    async close() {
      await once.close()
      await sql.end()
    },
  }
}

function handlerOf(once) {
  const act = async (kind, { tx, key }) => {
    await tx`insert into effects (key) values (${key})`
    if (kind === 'throws') throw new Error('a mistake of the handler')
    if (kind === 'failing') return new Response('{"failing":true}', { status: 503 })
    if (kind === 'created') return Response.json({ random: Math.random() }, { status: 201, headers: { etag: '"1"' } })
    return new Response(null, { status: 303, headers: { location: '/elsewhere' } })
  }
  const byFetch = onFetch(once, { scope: 'global' })(async (request, op) => {
    const kind = new URL(request.url).pathname.split('/').at(-1)
    // The handler can read its body.
    await request.json()
    const response = await act(kind, op)
    if (kind === 'thrown') throw response
    return response
  })
  const app = new Hono()
  app.post('/hono/:kind', onHono(once, { scope: 'global' })(), async (c) => {
    await c.req.json()
    return act(c.req.param('kind'), c.var.once)
  })
  app.onError((_error, c) => c.json({ host: true }, 500))
  return async (request) => {
    if (new URL(request.url).pathname.startsWith('/hono/')) return app.fetch(request)
    try {
      return await byFetch(request)
    } catch {
      return Response.json({ host: true }, { status: 500 })
    }
  }
}
