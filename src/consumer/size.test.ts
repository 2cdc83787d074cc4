import { expect, it } from 'vitest'
import { CONSUMER_BATCH_MS, CONSUMER_BYTES_MAX } from '../limits.ts'
import type { Delivery } from '../source/source.ts'
import type { ConsumerSettings } from './options.ts'
import { BatchSize, ReceiveSize } from './size.ts'

const MB = 1024 * 1024
const deliveries = (...bytes: (number | undefined)[]): Delivery[] => bytes.map((n) => ({ bytes: n }) as Delivery)

it('few messages are requested before the first one came, and as many as have room afterwards', () => {
  const size = new ReceiveSize()
  expect([size.next(5, 0), size.next(100, 0)]).toEqual([5, 16])
  size.came([])
  expect(size.next(100, 0)).toBe(16)
  size.came(deliveries(undefined, 0))
  expect(size.next(100, 0)).toBe(100)
})

it('the bytes per message rise at once and fall slowly', () => {
  const size = new ReceiveSize()
  const room = (bytesInHand = 0): number => size.next(1_000_000, bytesInHand)
  size.came(deliveries(MB, 3 * MB))
  expect(room()).toBe(Math.floor(CONSUMER_BYTES_MAX / (2 * MB)))
  expect(room(CONSUMER_BYTES_MAX / 2)).toBe(Math.floor(CONSUMER_BYTES_MAX / 2 / (2 * MB)))
  size.came(deliveries(MB))
  expect(room()).toBe(Math.floor(CONSUMER_BYTES_MAX / (1.8 * MB)))
  size.came(deliveries(4 * MB))
  expect(room()).toBe(Math.floor(CONSUMER_BYTES_MAX / (4 * MB)))
})

it('there is room for one message, however large, when nothing is in hand', () => {
  const size = new ReceiveSize()
  size.came(deliveries(CONSUMER_BYTES_MAX * 2))
  expect([size.next(10, 0), size.next(10, 1)]).toEqual([1, 0])
})

it('a batch has as many messages as take about its time', () => {
  const settings = { leaseMs: null, delivery: 'once', batch: 1_000, deadlineMs: 1_000_000 } as ConsumerSettings
  const size = new BatchSize(settings, undefined)
  expect(size.next(0)).toBe(32)
  size.isDrain = true
  expect(size.next(0)).toBe(1)
  size.took(100, 100)
  expect([size.next(0), size.next(1)]).toEqual([CONSUMER_BATCH_MS, CONSUMER_BATCH_MS * 2])
  size.took(11, 1)
  expect(size.next(0)).toBe(Math.floor(CONSUMER_BATCH_MS / 3))
  expect(new BatchSize({ ...settings, leaseMs: 1_000 }, undefined).next(0)).toBe(1)
})
