/** The route's part of the wiring, for one web framework. */
export interface FrameworkWiring {
  /** The packages that the wiring imports. */
  readonly packages: readonly string[]
  /** The text of charges.ts. */
  readonly text: string
}

const SCOPE = `// The owner of a key. Return the authenticated caller: 'global' is for a service that has one caller.
const idempotent = idempotency(once, { scope: 'global' })`

const LISTEN = `/** Starts the server. \`close\` answers the accepted requests, and ends what this service started. */
export async function listen(port: number): Promise<{ port: number; close(): Promise<void> }> {`

/** A server of node:http. `start` is the expression that creates it. */
function withServer(own: string, imports: string, routes: string, start: string): string {
  return `import { once as event } from 'node:events'
${own}import type { AddressInfo } from 'node:net'
${imports}
import { charge, end, once } from './once.js'

${SCOPE}

${routes}

${LISTEN}
  const server = ${start}
  await event(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      await once.close({ within: '10s', server })
      await end()
    },
  }
}
`
}

export type FrameworkName = 'express' | 'fastify' | 'hono' | 'koa' | 'nest' | 'node'

export const FRAMEWORKS: Readonly<Record<FrameworkName, FrameworkWiring>> = {
  express: {
    packages: ['express', '@types/express'],
    text: withServer(
      '',
      `import express from 'express'
import { idempotency } from 'effectively-once/express'`,
      `export const app = express().use(express.json())
app.post(
  '/charges',
  idempotent(async (req, res, { tx }) => void res.status(201).json(await charge(tx, Number(req.body.amount)))),
)`,
      'app.listen(port)',
    ),
  },
  fastify: {
    packages: ['fastify'],
    text: `import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { idempotency } from 'effectively-once/fastify'
import { charge, end, once } from './once.js'

${SCOPE}

// While Fastify closes, it would answer 503 on open connections.
export const app = Fastify({ return503OnClosing: false })
app.post<{ Body: { amount: number } }>(
  '/charges',
  idempotent(async (request, reply, { tx }) => reply.code(201).send(await charge(tx, Number(request.body.amount)))),
)

${LISTEN}
  await app.listen({ port })
  return {
    port: (app.server.address() as AddressInfo).port,
    async close() {
      await once.close({ within: '10s', server: app.server })
      await app.close()
      await end()
    },
  }
}
`,
  },
  hono: {
    packages: ['hono', '@hono/node-server'],
    text: withServer(
      '',
      `import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { idempotency } from 'effectively-once/hono'`,
      `export const app = new Hono()
app.post('/charges', idempotent(), async (c) => {
  const { amount } = await c.req.json<{ amount: number }>()
  return c.json(await charge(c.get('once').tx, Number(amount)), 201)
})`,
      'serve({ fetch: app.fetch, port })',
    ),
  },
  koa: {
    packages: ['koa', '@types/koa'],
    text: withServer(
      '',
      `import { json } from 'node:stream/consumers'
import Koa from 'koa'
import { idempotency } from 'effectively-once/koa'`,
      `export const app = new Koa()
app.use(idempotent())
app.use(async (ctx) => {
  const { amount } = (await json(ctx.req)) as { amount: number }
  ctx.status = 201
  ctx.body = await charge(ctx.state['once'].tx, Number(amount))
})`,
      'app.listen(port)',
    ),
  },
  nest: {
    packages: ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'reflect-metadata', 'rxjs'],
    text: `import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Body, Controller, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { OpOf } from 'effectively-once'
import { Idempotent, OnceModule, Op } from 'effectively-once/nest'
import { charge, end, once, type Charge } from './once.js'

@Controller()
class Charges {
  @Post('charges')
  @Idempotent()
  create(@Body() body: { amount: number }, @Op() { tx }: OpOf<typeof once>): Promise<Charge> {
    return charge(tx, Number(body.amount))
  }
}

// The owner of a key. Return the authenticated caller: 'global' is for a service that has one caller.
@Module({ imports: [OnceModule.forRoot({ once, scope: 'global', closeWithin: '10s' })], controllers: [Charges] })
export class ChargesModule {}

${LISTEN}
  const app = await NestFactory.create(ChargesModule, { logger: ['error', 'warn'] })
  await app.listen(port)
  return {
    port: (app.getHttpServer().address() as AddressInfo).port,
    async close() {
      await app.close()
      await end()
    },
  }
}
`,
  },
  node: {
    packages: [],
    text: withServer(
      `import { createServer } from 'node:http'
`,
      `import { json } from 'node:stream/consumers'
import { idempotency } from 'effectively-once/node'`,
      `const handler = idempotent(async (req, res, { tx }) => {
  const { amount } = (await json(req)) as { amount: number }
  res.writeHead(201, { 'content-type': 'application/json' })
  res.end(JSON.stringify(await charge(tx, Number(amount))))
})`,
      'createServer(handler).listen(port)',
    ),
  },
}
