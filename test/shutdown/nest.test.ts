import 'reflect-metadata'
import { Agent, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Controller, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { describe, expect, it } from 'vitest'
import { Idempotent, OnceModule } from '../../src/entry/nest.ts'
import { memoryStore } from '../../src/entry/testing.ts'
import { effectivelyOnce } from '../../src/index.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** An application whose one route takes a while. */
async function listening(adapter: ExpressAdapter | FastifyAdapter, takesMs: number) {
  const once = effectivelyOnce({ namespace: 'nest', store: memoryStore(), guard: 'off', sweep: false })
  class Orders {
    create(): Promise<string> {
      return pause(takesMs).then(() => 'made')
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'create') as PropertyDescriptor
  for (const each of [Post(), Idempotent()]) each(Orders.prototype, 'create', descriptor)
  Controller('orders')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  Module({
    imports: [OnceModule.forRoot({ once, scope: 'global', closeWithin: '2s', onError: () => {} })],
    controllers: [Orders],
  })(App)
  const app = await NestFactory.create(App, adapter as never, { logger: false })
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let key = 0
  const post = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = { 'idempotency-key': `k${++key}` }
      request({ port, host: '127.0.0.1', path: '/orders', method: 'POST', agent, headers }, (res) => {
        res.resume().on('end', () => resolve(res.statusCode ?? 0))
      })
        .on('error', reject)
        .end()
    })
  return { app, once, post, agent }
}

describe.each<[string, () => ExpressAdapter | FastifyAdapter]>([
  ['Express', () => new ExpressAdapter()],
  ['Fastify', () => new FastifyAdapter()],
])('Nest on %s, told to shut down', (_name, adapter) => {
  it('ends although a client keeps its connection busy, and answers every request that it read', async () => {
    const { app, post, agent } = await listening(adapter(), 20)
    const answers: (number | string)[] = []
    const over = new AbortController()
    const client = (async () => {
      while (!over.signal.aborted) {
        const answer = await post().catch((error: NodeJS.ErrnoException) => String(error.code))
        answers.push(answer)
        if (typeof answer === 'string') break
      }
    })()
    // Connections that wait in the backlog of a closed server are reset.
    for (let tries = 0; answers.length < 3 && tries < 1_000; tries++) await pause(10)
    const at = performance.now()
    const ended = await Promise.race([app.close().then(() => true), pause(6_000).then(() => false)])
    over.abort()
    await client
    agent.destroy()
    expect(ended).toBe(true)
    expect(performance.now() - at).toBeLessThan(2_500)
    expect(new Set(answers.filter((answer) => typeof answer === 'number'))).toEqual(new Set([201]))
  })

  it('ends in time although a handler does not', async () => {
    const { app, post, agent } = await listening(adapter(), 8_000)
    const stuck = post().catch(() => 0)
    await pause(100)
    const at = performance.now()
    const ended = await Promise.race([app.close().then(() => true), pause(6_000).then(() => false)])
    expect(ended).toBe(true)
    expect(performance.now() - at).toBeLessThan(2_500)
    expect(await stuck).not.toBe(201)
    agent.destroy()
  })
})
