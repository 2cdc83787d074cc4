import 'reflect-metadata'
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { Body, Controller, HttpCode, HttpException, Injectable, Module, Post } from '@nestjs/common'
import type { ExecutionContext, INestApplication } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openWorld, type QueryTx, type World } from '../../test/http/world.ts'
import { Idempotent, InjectOnce, OnceContext, OnceModule, Op } from '../entry/nest.ts'
import type { Once, Operation } from '../index.ts'
import { Client } from '../testing/http-contract/client.ts'

let world: World
let app: INestApplication | undefined
beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(async () => {
  await app?.close()
  await world.close()
})

/** What the compiler makes of `@decorator` on classes, methods and parameters. */
function decorate(
  type: { prototype: object },
  method: string,
  decorators: MethodDecorator[],
  parameters: ParameterDecorator[],
): void {
  parameters.forEach((each, index) => each(type.prototype, method, index))
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, method) as PropertyDescriptor
  for (const each of decorators) each(type.prototype, method, descriptor)
}

test('module, decorators, injection and the context of deep services', async () => {
  type Op1 = Operation<QueryTx, {}>
  class Deep {
    readonly context: OnceContext
    readonly once: Once<QueryTx, {}>
    constructor(context: OnceContext, once: Once<QueryTx, {}>) {
      this.context = context
      this.once = once
    }
    async save(): Promise<string> {
      const { tx, key } = this.context.current<Op1>()
      await tx.query('insert into contract_effect (route, key) values ($1, $2)', ['deep', key])
      return key
    }
  }
  Reflect.defineMetadata('design:paramtypes', [OnceContext, Object], Deep)
  InjectOnce()(Deep, undefined as never, 1)
  Injectable()(Deep)

  class Orders {
    readonly deep: Deep
    constructor(deep: Deep) {
      this.deep = deep
    }
    async create(body: { amount: number }, op: Op1): Promise<unknown> {
      world.ran(op.key)
      expect(this.deep.once).toBe(world.once)
      if (body.amount < 0) throw new HttpException({ declined: true }, 402)
      return { key: await this.deep.save(), amount: body.amount }
    }
  }
  Reflect.defineMetadata('design:paramtypes', [Deep], Orders)
  decorate(Orders, 'create', [Post(), HttpCode(202), Idempotent()], [Body(), Op()])
  Controller('orders')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  Module({
    imports: [OnceModule.forRoot({ once: world.once, scope: (req) => String(req.headers['x-user'] ?? 'nobody') })],
    controllers: [Orders],
    providers: [Deep],
  })(App)
  app = await NestFactory.create(App, { logger: false, forceCloseConnections: true })
  await app.listen(0, '127.0.0.1')
  const client = new Client(`http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`)

  const key = client.newKey()
  const first = await client.send({ path: '/orders', key })
  const second = await client.send({ path: '/orders', key })
  expect([first.status, JSON.parse(first.text)]).toEqual([202, { key, amount: 5 }])
  expect([second.status, second.text, second.headers.get('idempotent-replayed')]).toEqual([202, first.text, 'true'])
  expect(await world.effects(key)).toBe(1)

  const refused = client.newKey()
  for (let i = 0; i < 2; i++) {
    const seen = await client.send({ path: '/orders', key: refused, body: '{"amount":-1}' })
    expect([seen.status, seen.text]).toEqual([402, '{"declined":true}'])
  }
  expect(world.runs(refused)).toBe(1)
  await expect(async () => app?.get(Deep).save()).rejects.toThrow('ONCE_TX_REQUIRED')
})

test.each(['express', 'fastify'])('forRootAsync makes the options from other providers, on %s', async (host) => {
  type Authenticated = { user: string }
  class Accounts {
    userOf(req: Authenticated): string {
      return req.user
    }
  }
  Injectable()(Accounts)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class AccountsModule {}
  Module({ providers: [Accounts], exports: [Accounts] })(AccountsModule)

  class Orders {
    readonly context: OnceContext
    readonly once: unknown
    constructor(context: OnceContext, once: unknown) {
      this.context = context
      this.once = once
    }
    async create(op: Operation<QueryTx, {}>): Promise<unknown> {
      world.ran(op.key)
      expect(this.once).toBe(world.once)
      expect(this.context.current()).toBe(op)
      return { scope: op.scope }
    }
  }
  Reflect.defineMetadata('design:paramtypes', [OnceContext, Object], Orders)
  InjectOnce()(Orders, undefined as never, 1)
  decorate(Orders, 'create', [Post(), Idempotent()], [Op()])
  Controller('orders')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  const once = OnceModule.forRootAsync({
    imports: [AccountsModule],
    inject: [Accounts],
    useFactory: async (accounts: Accounts) => ({
      once: world.once,
      scope: (req: Authenticated) => accounts.userOf(req),
    }),
  })
  Module({ imports: [once], controllers: [Orders] })(App)
  app = await (host === 'express'
    ? NestFactory.create(App, { logger: false, forceCloseConnections: true })
    : NestFactory.create(App, new FastifyAdapter({ forceCloseConnections: true }), { logger: false }))
  // A guard: it knows the caller before the interceptor asks.
  app.useGlobalGuards({
    canActivate: (context: ExecutionContext) => {
      context.switchToHttp().getRequest<Authenticated>().user = 'ann'
      return true
    },
  })
  await app.listen(0, '127.0.0.1')
  const client = new Client(`http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`)
  const key = client.newKey()
  const seen = [await client.send({ path: '/orders', key }), await client.send({ path: '/orders', key })]
  expect(seen.map(({ status, text }) => [status, text])).toEqual([
    [201, '{"scope":"ann"}'],
    [201, '{"scope":"ann"}'],
  ])
  expect(world.runs(key)).toBe(1)
  await app.close()
  app = undefined
  await expect(world.once.run({ scope: 'ann', key: 'later', input: 1 }, async () => 1)).rejects.toThrow('ONCE_CLOSED')
})

test.each(['express', 'fastify'])('closing waits neither for idle nor for busy connections, on %s', async (host) => {
  class Orders {
    async create(): Promise<unknown> {
      return 'x'
    }
  }
  decorate(Orders, 'create', [Post('orders'), Idempotent()], [])
  Controller()(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  const once = OnceModule.forRoot({ once: world.once, scope: 'global', closeWithin: '4s' })
  Module({ imports: [once], controllers: [Orders] })(App)
  const running = await (host === 'express'
    ? NestFactory.create(App, { logger: false })
    : NestFactory.create(App, new FastifyAdapter(), { logger: false }))
  await running.listen(0, '127.0.0.1')
  const { port } = running.getHttpServer().address() as AddressInfo
  const agent = new Agent({ keepAlive: true })
  const answered = (path: string): Promise<number | undefined> =>
    new Promise((resolve) => {
      const headers = { 'idempotency-key': randomUUID() }
      request({ port, host: '127.0.0.1', path, method: 'POST', agent, headers }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode))
      })
        .once('error', () => resolve(undefined))
        .end()
    })
  const unused = connect(port, '127.0.0.1').on('error', () => {})
  const statuses: (number | undefined)[] = []
  const busy = (async () => {
    for (let i = 0; i < 20_000 && !statuses.includes(undefined); i++) statuses.push(await answered('/orders'))
  })()
  await vi.waitFor(() => expect(statuses).toContain(201), { timeout: 10_000 })
  const closed = running.close().then(() => 'closed')
  const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'late').unref())
  try {
    expect(await Promise.race([closed, late])).toBe('closed')
    await busy
    expect(new Set(statuses)).toEqual(new Set([201, undefined]))
  } finally {
    unused.destroy()
    agent.destroy()
    running.getHttpServer().closeAllConnections()
    await closed
  }
})

test('forRootAsync tells the error of its factory', async () => {
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  const once = OnceModule.forRootAsync({ useFactory: () => ({ once: world.once, scope: 7 as never }) })
  Module({ imports: [once] })(App)
  await expect(NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })).rejects.toThrow(
    'ONCE_OPTION_INVALID',
  )
})

test.each(['express', 'fastify'])('an error of ours is logged, on %s', async (host) => {
  class Orders {
    async create(): Promise<unknown> {
      return 'x'
    }
  }
  decorate(Orders, 'create', [Post('/'), Idempotent()], [])
  Controller('/')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class Root {}
  const scope = (): string => ''
  Module({ imports: [OnceModule.forRoot({ once: world.once, scope, closeWithin: false })], controllers: [Orders] })(
    Root,
  )
  app = await (host === 'express'
    ? NestFactory.create(Root, { logger: false })
    : NestFactory.create(Root, new FastifyAdapter(), { logger: false }))
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  const logged = vi.spyOn(console, 'error').mockImplementation(() => {})
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'idempotency-key': 'k' } })
  const lines = logged.mock.calls.map((words) => words.join(' '))
  logged.mockRestore()
  expect(response.status).toBe(500)
  expect(await response.text()).not.toContain('Return a string')
  expect(lines).toEqual([expect.stringContaining('POST Orders.create was answered 500 OnceError: ONCE_SCOPE_EMPTY')])
})
