import type { Toy } from './toy.ts'

/** An adapter for a framework whose handlers take a context with a web request, and return a response. */
export const toyFramework: Toy = {
  subpath: `  toyweb: { kind: 'framework', peers: { toyweb: '>=1' }, kB: 16, page: 'docs/http.md' },`,
  rows: [
    {
      file: 'test/http/describe-contract.ts',
      after: `import { startNode } from './apps/node.ts'\n`,
      row: `import { startToy } from './apps/toyweb.ts'\n`,
    },
    {
      file: 'test/http/describe-contract.ts',
      after: `  koa: { start: startKoa, features: { errorStatus: true, answersItself: true, batched: true } },\n`,
      row: `  toyweb: { start: startToy, features: { errorStatus: false, answersItself: false, batched: false } },\n`,
    },
  ],
  page: 'docs/http.md',
  proof: { file: 'test/http/contract.test.ts', named: 'toyweb on sqlite' },
  files: {
    'src/entry/toyweb.ts': `export { idempotency } from '../http/toyweb.ts'
export type { ToyContext } from '../http/toyweb.ts'
`,
    'src/http/toyweb.ts': `import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import type { Once } from '../once/types.ts'
import type { Op } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import { bind } from './bound.ts'
import { collect, tooLarge } from './content-coding.ts'
import { type Documented, documentsOf } from './documents.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { passingOperation } from './passing.ts'
import { serveWeb } from './web-serve.ts'

export interface ToyContext {
  readonly request: Request
}
type Handler<O> = (context: ToyContext, op: O) => Promise<Response | undefined>

export interface Idempotent<Tx, E extends Events> extends Documented {
  <const L extends Duration | undefined = undefined>(
    options: RouteOptions<ToyContext, L>,
    handler: Handler<Op<L, Tx, E>>,
  ): (context: ToyContext) => Promise<Response | undefined>
}

export function idempotency<Tx, E extends Events>(once: Once<Tx, E>, options: IdempotencyOptions<ToyContext>): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (own: RouteOptions<ToyContext>, handler: Handler<unknown>) => {
    const protection = bound(own)
    return async (context: ToyContext): Promise<Response | undefined> => {
      const { request } = context
      if (!protection.protects(request.method)) return handler(context, passingOperation(request.method))
      const spare = request.clone()
      return serveWeb(protection, {
        web: request,
        request: context,
        pattern: \`\${request.method} toy\`,
        rerunnable: false,
        async body(bytesMax) {
          if (request.bodyUsed) throw onceError('ONCE_BODY_UNSEEN')
          return spare.body ? collect(spare.body, bytesMax, () => tooLarge(bytesMax)) : new Uint8Array(0)
        },
        handle: async (op) => ({ response: await handler(context, op), threw: false }),
      })
    }
  }
  return Object.assign(idempotent, documentsOf(bound())) as unknown as Idempotent<Tx, E>
}
`,
    'test/http/apps/toyweb.ts': `import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { idempotency, type ToyContext } from '../../../src/entry/toyweb.ts'
import { listen, type Started, type World } from '../world.ts'
import { responseOf } from './parts.ts'

export function startToy({ once, routes }: World): Promise<Started> {
  const idempotent = idempotency(once, { scope: ({ request }) => request.headers.get('x-user') ?? 'nobody' })
  const table = new Map<string, (context: ToyContext) => Promise<Response | undefined>>()
  for (const route of routes) {
    const handler =
      route.lease === undefined
        ? idempotent(route.options, async ({ request }, op) => {
            const answer = await route.handle({ body: await request.text(), user: '' }, op)
            return answer ? responseOf(answer) : undefined
          })
        : idempotent({ ...route.options, lease: route.lease }, async ({ request }, op) => {
            const seen = { body: await request.text(), user: '' }
            await route.before(op, seen)
            return op.commit(async (inner) => responseOf(await route.commit(inner, seen)))
          })
    table.set(route.path, handler)
  }
  table.set('/plain', idempotent({}, async () => new Response('plain')))
  table.set(idempotent.policyPath, async () => Response.json(idempotent.policy()))
  const answer = async (request: Request): Promise<Response> => {
    try {
      return (await table.get(new URL(request.url).pathname)?.({ request })) ?? new Response(null, { status: 404 })
    } catch {
      return new Response('a host answers errors like this', { status: 500 })
    }
  }
  const listener = getRequestListener(answer, { overrideGlobalObjects: false })
  return listen(createServer((req, res) => void listener(req, res)))
}
`,
  },
}
