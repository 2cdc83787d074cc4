import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cluster } from 'ioredis'
import { describe, expect, inject, it } from 'vitest'
import type { Server } from '../../scripts/servers/index.ts'
import { startRedisCluster } from '../../scripts/servers/redis-cluster.ts'
import { effectivelyOnce, event } from '../../src/index.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { brokerNamed, type BrokerName } from '../broker/support/broker.ts'
import { ClusterControl } from '../redis/support/cluster-control.ts'
import { lateServer } from '../support/late-servers.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 240_000
const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }

/** Where the command line sends events to, by the URL of the server. */
const PLACES: Readonly<Record<BrokerName, (url: string, place: string) => string>> = {
  nats: (url, place) => `${url}?stream=${place}`,
  redis: (url, place) => `${url}?stream=${place}`,
  kafka: (url, place) => `kafka://${new URL(url).host}?topic=${place}`,
  rabbitmq: (url, place) => `${url}?queue=${place}`,
  sqs: (url, place) => `sqs://${new URL(url).host}/000000000000/${place}?tls=false`,
  sqsFifo: (url, place) => `sqs://${new URL(url).host}/000000000000/${place}.fifo?tls=false`,
}

/** The client of SQS takes them from the environment. On an old Node it would warn. */
const AWS = {
  NODE_NO_WARNINGS: '1',
  AWS_REGION: 'eu-central-1',
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
}
const sqs = await lateServer('sqs')

const servers: Readonly<Record<BrokerName, Server>> = {
  ...inject('servers'),
  kafka: await lateServer('kafka'),
  rabbitmq: await lateServer('rabbitmq'),
  sqs,
  sqsFifo: sqs,
}

describe.each(Object.keys(PLACES) as BrokerName[])('relay --to %s', (name) => {
  const server = servers[name]
  const missing = 'missing' in server

  // On Node 20 the client of SQS writes a warning of its own.
  it.skipIf(missing || name.startsWith('sqs'))(
    'sends what waits, once, and exits',
    { timeout: TIMEOUT_MS },
    async () => {
      if ('missing' in server) return
      const folder = await mkdtemp(join(tmpdir(), 'once-relay-'))
      const file = join(folder, 'shop.db')
      const place = `cli${process.pid}`
      const broker = await (await brokerNamed(name)).open({ url: server.url, place, make: true })
      const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), events, sweep: false })
      try {
        await once.migrate()
        const ids: string[] = []
        for (const order of ['a', 'b', 'c']) {
          const operation = { scope: 's', key: order, input: { order } }
          ids.push(await once.run(operation, (op) => op.publish('order.placed', { order })))
        }
        const args = ['relay', '--drain', '--to', PLACES[name](server.url, place), '--url', file, '--json']
        const first = await cli(args, { env: AWS })
        // A broker on one machine gets advice.
        const news = first.err.split('\n').filter((line) => line !== '' && !line.startsWith('advice: '))
        expect({ code: first.code, news }).toEqual({ code: 0, news: [] })
        expect(JSON.parse(first.out)).toEqual({
          sent: 3,
          to: name === 'sqsFifo' ? `sqs ${place}.fifo` : `${name} ${place}`,
          failed: 0,
        })
        const received = (await broker.received()).map(({ id }) => id)
        expect(received.toSorted()).toEqual(ids.toSorted())
        const second = await cli(args, { env: AWS })
        expect(JSON.parse(second.out)).toMatchObject({ sent: 0 })
      } finally {
        await once.close()
        await broker.remove()
        await broker.close()
        await rm(folder, { recursive: true, force: true })
      }
    },
  )
})

it('relay --to one server of a Redis Cluster finds the server of the stream', { timeout: TIMEOUT_MS }, async () => {
  const server = servers.redis
  if ('missing' in server || server.from !== 'debian') return
  const folder = await mkdtemp(join(tmpdir(), 'once-relay-'))
  const file = join(folder, 'shop.db')
  const cluster = await startRedisCluster()
  const control = new ClusterControl(cluster.nodes.map(({ url }) => Number(new URL(url).port)))
  const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), events, sweep: false })
  const elsewhere = new Cluster(cluster.nodes.map(({ url }) => url)).on('error', () => {})
  try {
    await control.settled()
    let stream = 'orders'
    while ((await control.placeOf(stream)).primary.port === Number(new URL(cluster.url).port)) stream += '1'
    await once.migrate()
    await once.run({ scope: 's', key: 'a', input: 1 }, (op) => op.publish('order.placed', { order: 'a' }))
    const to = `${cluster.url}?stream=${stream}`
    const { code, out, err } = await cli(['relay', '--drain', '--to', to, '--url', file, '--json'])
    const news = err.split('\n').filter((line) => line !== '' && !line.startsWith('advice: '))
    expect({ code, news }).toEqual({ code: 0, news: [] })
    expect(JSON.parse(out)).toEqual({ sent: 1, to: `redis ${stream}`, failed: 0 })
    expect(await elsewhere.xlen(stream)).toBe(1)
  } finally {
    elsewhere.disconnect()
    control.close()
    await once.close()
    await cluster.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

describe('relay --to a broker that does not answer', () => {
  it.each([
    ['nats', 'nats://127.0.0.1:9?stream=x'],
    ['redis', 'redis://127.0.0.1:9?stream=x'],
    ['kafka', 'kafka://127.0.0.1:9?topic=x'],
    ['rabbitmq', 'amqp://127.0.0.1:9?queue=x'],
  ])('%s: ends with one line and code 1', { timeout: TIMEOUT_MS }, async (_, to) => {
    const folder = await mkdtemp(join(tmpdir(), 'once-relay-'))
    const file = join(folder, 'shop.db')
    try {
      expect((await cli(['migrate', '--url', file])).code).toBe(0)
      const { code, out, err } = await cli(['relay', '--to', to, '--url', file, '--namespace', 'shop'], { env: AWS })
      expect({ code, out }).toEqual({ code: 1, out: '' })
      expect(err.trim().split('\n')).toHaveLength(1)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
