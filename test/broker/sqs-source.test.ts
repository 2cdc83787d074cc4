import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../support/postgres.ts'
import { consumerChaos } from './support/consumer-chaos.ts'
import { describeLate } from './support/describe-late.ts'
import { proxyOf, type Proxy } from './support/proxy.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

/** A queue is one consumer's. */
const OTHERWISE = new Set(['gives each event to one of those who share a name, and to everybody else'])

for (const kind of ['sqs', 'sqsFifo'] as const) {
  await describeLate(`what a consumer relies on, ${kind}`, { server: 'sqs' }, (url) => {
    let proxy: Proxy
    beforeAll(async () => {
      proxy = await proxyOf(url)
    })
    afterAll(() => proxy.close())
    const open = () => sourceTarget(kind, { ...proxy, stop: () => proxy.close() })
    for (const { name, takesServerAway, run } of sourceCases(open).filter((one) => !OTHERWISE.has(one.name))) {
      it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
    }
  })
}

await describeLate('consumers of SQS killed at random', { server: 'sqs', postgres: true }, (url) => {
  const run = async (broker: string, inOrder: boolean) => {
    const database = await freshDatabase()
    try {
      const params = { broker, url, database: database.url, events: 300, consumers: 2, kills: 1, inOrder }
      return await consumerChaos({ ...params, timeoutMs: 150_000 })
    } finally {
      await database.drop()
    }
  }
  const RIGHT = { kills: 1, lost: 0, twice: 0, orderBreaks: 0, deadLetters: 0, settled: true }

  it('a standard queue, in random order: every effect once, in order', { timeout: 200_000 }, async () => {
    expect(await run('sqs', false)).toMatchObject(RIGHT)
  })

  it('a FIFO queue: every effect once, in the order of the queue', { timeout: 200_000 }, async () => {
    expect(await run('sqsFifo', true)).toMatchObject(RIGHT)
  })
})
