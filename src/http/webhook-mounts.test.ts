import Fastify from 'fastify'
import { expect, it } from 'vitest'
import type { PushedConsumer } from '../consumer/types.ts'
import { fastifyWebhook } from './webhook-mounts.ts'

it('Fastify sends the status, the headers and the body of a webhook', async () => {
  const receive: PushedConsumer['receive'] = async ({ body }) => ({
    status: 503,
    headers: { 'retry-after': '7' },
    body: `${body.length}`,
  })
  const app = Fastify()
  app.post('/hook', fastifyWebhook({ receive } as PushedConsumer) as never)
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  const response = await fetch(`${base}/hook`, { method: 'POST', body: 'abc' })
  expect([response.status, response.headers.get('retry-after'), await response.text()]).toEqual([503, '7', '3'])
  await app.close()
})
