import { Redis } from 'ioredis'
import { redisSink } from '../../../src/broker/redis/sink.ts'
import { redisSource } from '../../../src/broker/redis/source.ts'
import { positionOf } from '../../../src/broker/redis/log.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'
import { receivedFrom, type Broker } from './broker.ts'

const PAGE = 2_000
const TOO_LARGE = 1024 * 1024

export const redis: Broker = {
  server: 'redis',
  async open({ url, place, make, inOrder = false }) {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: () => 100, autoResendUnfulfilledCommands: false })
    client.on('error', () => {})
    await client.connect()
    // The least that can be set: the default of half a gigabyte is beyond any event.
    if (make) await client.config('SET', 'proto-max-bulk-len', TOO_LARGE)
    return {
      sink: () => redisSink(client, { stream: place }),
      source: (events, { holdsFor = '30s' } = {}) =>
        redisSource(client, { stream: place, events, idle: holdsFor, ...(inOrder ? { singleActive: true } : {}) }),
      sendText: async (text) => void (await client.xadd(place, '*', 'event', text)),
      async unsettled(consumer) {
        const group = ((await client.xinfo('GROUPS', place)) as unknown[][]).find((found) => found[1] === consumer)
        const of = (name: string): number => Number(group?.[group.indexOf(name) + 1] ?? 0)
        return (await client.xlen(place)) - of('entries-read') + of('pending')
      },
      async ends() {
        if (!inOrder) return undefined
        const [last] = await client.xrevrange(place, '+', '-', 'COUNT', 1)
        return new Map(last ? [[place, positionOf(last[0]) + 1n]] : [])
      },
      async received() {
        const seen: Received[] = []
        for (let from = '-'; ;) {
          const page = await client.xrange(place, from, '+', 'COUNT', PAGE)
          for (const [, fields] of page) seen.push(receivedFrom(fields[3] ?? '', fields[1] ?? ''))
          const last = page.at(-1)
          if (!last || page.length < PAGE) return seen
          from = `(${last[0]}`
        }
      },
      tooLarge: TOO_LARGE,
      async back() {
        for (let i = 0; i < 100 && client.status !== 'ready'; i++) {
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
        await client.ping()
      },
      remove: async () => void (await client.del(place)),
      close: async () => client.disconnect(),
    }
  },
}
