import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { Controller, type INestApplication, Module, Post, StreamableFile } from '@nestjs/common'
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { EMPTY, map, Observable, tap, timeout } from 'rxjs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Idempotent, OnceModule, Op } from '../../src/entry/nest.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { effect, openWorld, type QueryTx, type World } from './world.ts'

const PLATFORMS = { express: () => new ExpressAdapter(), fastify: () => new FastifyAdapter() }

describe.each(Object.entries(PLATFORMS))('Nest on %s', (_name, adapter) => {
  let world: World
  let app: INestApplication | undefined
  beforeEach(async () => {
    world = await openWorld('sqlite')
  })
  afterEach(async () => {
    await app?.close()
    await world.close()
  })

  async function serve(interceptor: NestInterceptor, handle: (op: { tx: QueryTx; key: string }) => unknown) {
    class Orders {
      create(op: { tx: QueryTx; key: string }): unknown {
        return handle(op)
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'create') as PropertyDescriptor
    Op()(Orders.prototype, 'create', 0)
    for (const each of [Post(), Idempotent({ deadline: '600ms' })]) each(Orders.prototype, 'create', descriptor)
    Controller('orders')(Orders)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class App {}
    Module({ imports: [OnceModule.forRoot({ once: world.once, scope: 'global' })], controllers: [Orders] })(App)
    app = await NestFactory.create(App, adapter() as never, { logger: false, forceCloseConnections: true })
    app.useGlobalInterceptors(interceptor)
    await app.listen(0, '127.0.0.1')
    return new Client(`http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`)
  }

  it('interceptors around a replay complete, and do not wrap its bytes again', async () => {
    const seen: string[] = []
    const client = await serve(
      {
        intercept: (_context: ExecutionContext, next: CallHandler): Observable<unknown> =>
          next.handle().pipe(
            timeout(300),
            map((data: unknown) => ({ data })),
            tap({ complete: () => seen.push('complete'), error: () => seen.push('error') }),
          ),
      },
      async ({ tx, key }) => {
        await effect(tx, key)
        return { made: true }
      },
    )
    const key = client.newKey()
    const first = await client.send({ key })
    const second = await client.send({ key })
    expect([second.status, second.text]).toEqual([first.status, '{"data":{"made":true}}'])
    await new Promise((resolve) => setTimeout(resolve, 450))
    expect(seen).toEqual(['complete', 'complete'])
    // The connection is still well.
    expect((await client.send({ key })).text).toBe(first.text)
  })

  it('a file that breaks after its first bytes is one whole 5xx, without effect', async () => {
    const client = await serve(
      { intercept: (_context: ExecutionContext, next: CallHandler) => next.handle() },
      async ({ tx, key }) => {
        await effect(tx, key)
        return new StreamableFile(
          Readable.from(
            (async function* () {
              yield Buffer.from('some bytes ')
              await new Promise((resolve) => setTimeout(resolve, 5))
              throw new TypeError('the stream broke')
            })(),
          ),
        )
      },
    )
    const key = client.newKey()
    const seen = await client.send({ key }).catch((error: Error) => ({ status: 500, text: error.message }))
    expect(seen.status).toBeGreaterThanOrEqual(400)
    expect(seen.text).not.toContain('some bytes')
    expect(await world.effects(key)).toBe(0)
  })

  it('an observable without an end is left at the deadline', async () => {
    let isObserved = false
    const client = await serve(
      { intercept: (_context: ExecutionContext, next: CallHandler) => next.handle() },
      () =>
        new Observable(() => {
          isObserved = true
          return () => (isObserved = false)
        }),
    )
    const seen = await client.send({ key: client.newKey() })
    expect([seen.status, JSON.parse(seen.text).code]).toEqual([503, 'ONCE_DEADLINE'])
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(isObserved).toBe(false)
  })

  it('a handler that gives no value at all has failed, as it has without us', async () => {
    const client = await serve({ intercept: (_context, next) => next.handle() }, async ({ tx, key }) => {
      await effect(tx, key)
      return EMPTY
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect([seen.status, JSON.parse(seen.text)]).toEqual([500, { statusCode: 500, message: 'Internal server error' }])
    expect(await world.effects(key)).toBe(0)
  })
})
