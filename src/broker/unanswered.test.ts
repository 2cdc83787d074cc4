import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { BROKER_WITHIN_MS } from '../limits.ts'
import { NatsFetching, type NatsMessages } from './nats/fetching.ts'
import type { NatsMessage } from './nats/delivery.ts'
import { redisCommands, type RedisClient } from './redis/client.ts'

const never = (): Promise<never> => new Promise(() => {})

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it.each<[string, Partial<RedisClient>]>([
  ['ioredis', { status: 'ready', call: never, multi: () => ({ exec: never }) }],
  ['redis', { isReady: true, sendCommand: never, multi: () => ({ addCommand: () => {}, exec: never }) }],
])('a command that a client of %s forgot ends', async (_, client) => {
  const redis = redisCommands(client as RedisClient, 'here')
  const ends = [redis.call('PING'), redis.transaction([['PING']])].map((end) => end.catch(String))
  await vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS)
  const error = `Error: no answer from Redis within ${BROKER_WITHIN_MS} ms`
  expect(await Promise.all(ends)).toEqual([error, error])
})

it('a fetch that a server of NATS forgot is told, and another one follows', async () => {
  const one = { nak: () => {} } as unknown as NatsMessage
  let fetches = 0
  const forgotten: NatsMessages = { close: async () => {}, [Symbol.asyncIterator]: () => ({ next: never }) }
  const answered: NatsMessages = {
    close: async () => {},
    async *[Symbol.asyncIterator]() {
      yield one
    },
  }
  const consumer = { fetch: async () => (fetches++ === 0 ? forgotten : answered) }
  const { signal } = new AbortController()
  const fetching = new NatsFetching(async () => consumer, consumer, signal)
  const next = (): Promise<unknown> => fetching.next({ max: 1, waitMs: 2_000, signal }).catch(String)
  const came: unknown[] = []
  for (let i = 0; i < 6; i++) {
    const received = next()
    await vi.advanceTimersByTimeAsync(2_000)
    came.push(await received)
  }
  expect(came.filter((of) => of === 'Error: a fetch did not end')).toHaveLength(1)
  expect(came).toContainEqual([one])
})
