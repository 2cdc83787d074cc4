import { describe, expect, inject, test } from 'vitest'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce, type Signal } from '../../src/index.ts'
import type { LeasedOperation } from '../../src/operation/types.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'
import { until } from './support/cluster-control.ts'
import { Pair } from './support/cut-link.ts'

const server = inject('servers').redis
/** A server from elsewhere cannot be stopped. */
const isOurs = 'url' in server && server.from === 'debian'
const ATTEMPTS = 2

describe.skipIf(!isOurs)('while the link to the replica is cut', () => {
  test.each(REDIS_CLIENTS)('a redelivered message loses no attempt, %s', { timeout: 60_000 }, async (of) => {
    const pair = await Pair.start()
    const { client, close } = await openRedis(of, 'redis', pair.primary.url)
    let troubles = 0
    const observe = ({ kind }: Signal): void => void (kind === 'troubled' && troubles++)
    const store = redisStore(client, { replicas: 1 })
    const once = effectivelyOnce({ namespace: 'cut', store, guard: 'off', observe })
    const broker = memoryBroker()
    let ran = 0
    const handlers = {
      'step.made': (_event: unknown, { commit }: LeasedOperation<unknown, {}>) => {
        ran++
        return commit(() => {})
      },
    }
    const options = { from: broker.source, lease: '5s', attempts: ATTEMPTS } as const
    const consumer = once.consumer('reader', options, handlers)
    try {
      const { signal } = new AbortController()
      const earlier = await broker.source.open({ signal } as never)
      broker.publish({ id: 'm' })
      await earlier.receive({ max: 1, waitMs: 100, signal })
      await consumer.start()
      await pair.cut()
      await earlier.close()
      await until(async () => troubles > ATTEMPTS + 1)
      pair.mend()
      await until(async () => broker.left === 0)
      await consumer.stop()
      expect([await once.deadLetters.list(), ran]).toEqual([[], 1])
    } finally {
      await once.close()
      await close()
      await pair.stop()
    }
  })
})
