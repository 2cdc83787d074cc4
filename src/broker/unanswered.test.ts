import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { BROKER_WITHIN_MS } from '../limits.ts'
import { NatsFetching, type NatsMessages } from './nats/fetching.ts'
import type { NatsMessage } from './nats/delivery.ts'
import { redisCommands, type RedisClient } from './redis/client.ts'

const never = (): Promise<never> => new Promise(() => {})

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it.each<[string, Partial<RedisClient>]>([
  ['ioredis', { status: 'ready', call: never, multi: () => ({ exec: never }), disconnect: () => {} }],
  ['redis', { isReady: false, sendCommand: never, multi: () => ({ addCommand: () => {}, exec: never }) }],
])('a command that a client of %s forgot ends', async (_, client) => {
  const redis = redisCommands(client as RedisClient, 'here', 'payments')
  const ends = [redis.call('PING'), redis.transaction([['PING']])].map((end) => end.catch(String))
  await vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS)
  const error = `Error: no answer from Redis within ${BROKER_WITHIN_MS} ms`
  expect(await Promise.all(ends)).toEqual([error, error])
})

const IOREDIS = 'ioredis'

/** A client whose connection a firewall dropped, and what is done to that connection. */
function dropped(library: string) {
  const deeds: string[] = []
  let reply = never as () => Promise<unknown>
  const ends =
    library === IOREDIS
      ? { status: 'ready', call: () => reply(), disconnect: (again = false) => void deeds.push(`reconnect ${again}`) }
      : {
          isReady: true,
          sendCommand: () => reply(),
          destroy: () => void deeds.push('destroy'),
          connect: async () => void deeds.push('connect'),
        }
  const redis = redisCommands(ends as unknown as RedisClient, 'here', 'payments')
  return { redis, deeds, answer: () => void (reply = () => Promise.resolve('PONG')) }
}

it.each([
  [IOREDIS, ['reconnect true']],
  ['redis', ['destroy', 'connect']],
])('a connection of %s that stays silent is replaced once', async (library, expected) => {
  const { redis, deeds } = dropped(library)
  const ends = [redis.call('PING'), redis.call('PING')].map((end) => end.catch(String))
  await vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS)
  await Promise.all(ends)
  expect(deeds).toEqual(expected)
})

it.each([IOREDIS, 'redis'])('a connection of %s that answers later commands is kept', async (library) => {
  const { redis, deeds, answer } = dropped(library)
  const lost = redis.call('PING').catch(String)
  answer()
  await redis.call('PING')
  await vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS)
  expect(await lost).toMatch(/no answer/)
  expect(deeds).toEqual([])
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
