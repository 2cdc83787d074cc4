import { redisStore } from '../../../src/entry/redis-store.ts'
import { effectivelyOnce, isOnceError } from '../../../src/index.ts'
import { die } from '../../chaos/crashing-store.ts'
import type { Command, Reply } from '../../chaos/workers.ts'
import { openRedis, type RedisClientKind, type RedisServerKind } from '../../support/redis-clients.ts'
import { crashingLeases, type RedisPoint } from './crash-points.ts'
import { pay } from './provider.ts'

/** One process of a service on Redis: it pays when it is told to, and reports what the caller would see. */
const { CHAOS_URL = '', CHAOS_CLIENT, CHAOS_SERVER, CHAOS_PROVIDER = '' } = process.env
const { client } = await openRedis(CHAOS_CLIENT as RedisClientKind, CHAOS_SERVER as RedisServerKind, CHAOS_URL)
let crashAt: RedisPoint = 'nowhere'
const once = effectivelyOnce({
  namespace: 'chaos',
  store: crashingLeases(redisStore(client), () => crashAt),
  guard: 'off',
})

process.on('message', (command: Command) => {
  void run(command).then((reply) => process.send?.({ ...reply, number: command.number }))
})
process.send?.({ number: -1, outcome: 'ready' } satisfies Reply)

async function run(command: Command): Promise<Omit<Reply, 'number'>> {
  const { key, amount, holdMs, lease = '1s' } = command
  crashAt = (command.crashAt as RedisPoint | undefined) ?? 'nowhere'
  try {
    const value = await once.run({ scope: 'u', key, input: { amount }, lease }, async ({ step, commit }) => {
      const payment = await step('pay', async (s) => {
        const paid = await pay(CHAOS_PROVIDER, key, s.key)
        if (crashAt === 'in step') die()
        return paid
      })
      process.send?.({ number: -2, outcome: 'inside' } satisfies Reply)
      if (holdMs) await new Promise((resolve) => setTimeout(resolve, holdMs))
      return commit(() => ({ payment, amount }))
    })
    return { outcome: 'value', value }
  } catch (error) {
    return { outcome: 'error', code: isOnceError(error) ? error.code : String(error) }
  }
}
