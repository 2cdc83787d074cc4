import { expect, it } from 'vitest'
import type { RedisCommands } from './client.ts'
import { RedisGroup } from './group.ts'
import { redisLog } from './log.ts'
import { RedisReading } from './reading.ts'

const { signal } = new AbortController()

function recording(): { redis: RedisCommands; calls: (readonly string[])[] } {
  const calls: (readonly string[])[] = []
  const call = async (...args: readonly string[]): Promise<unknown> => {
    calls.push(args)
    return null
  }
  return { redis: { isReady: () => true, call } as RedisCommands, calls }
}

it.each([
  [300, '700'],
  [1_000, '0'],
  [5_000, '0'],
])('an entry that is given back for %i ms looks as if it had been idle for the rest', async (delayMs, idle) => {
  const { redis, calls } = recording()
  const group = new RedisGroup(redis, { stream: 's', group: 'g', member: 'm', idleMs: 1_000 })
  const reading = new RedisReading(group, redis, { name: 'redis', signal, warn: () => {} })
  await reading.giveBack(['1-0'], delayMs)
  expect(calls.map((args) => args.slice(2))).toEqual([['1', 's', 'g', 'm', idle, '1-0']])
})

it('a log is read by a command that waits for new entries', async () => {
  const { redis, calls } = recording()
  const params = { max: 5, waitMs: 100, signal, suspects: 0, partition: 'p' }
  expect(await redisLog(redis, { stream: 's', name: 'redis' }).read(0n, params)).toEqual([])
  expect(calls.map((args) => args.slice(0, 7))).toEqual([['XREAD', 'COUNT', '5', 'BLOCK', '100', 'STREAMS', 's']])
})
