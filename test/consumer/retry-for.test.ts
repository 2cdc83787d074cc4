import { expect, it } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../../src/index.ts'
import { checkConsumer } from '../../src/consumer/options.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'

const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }

function story(place: Place): void {
  const open = (namespace: string, signals: Signal[] = []) =>
    effectivelyOnce({
      namespace,
      store: place.bed.store,
      events,
      guard: 'off',
      sweep: false,
      observe: (signal) => signals.push(signal),
    })

  it('is retried until both its attempts and its time are spent', async () => {
    const once = open('both')
    await once.run({ scope: 's', key: 'a', input: 1 }, (op) => op.publish('order.placed', { order: 'a' }))
    const tried: number[] = []
    const consumer = once.consumer(
      'slow',
      { from: once.outbox, attempts: 2, retryFor: '700ms' },
      {
        'order.placed': async () => {
          tried.push(performance.now())
          throw new Error('the dependency is down')
        },
      },
    )
    await consumer.start()
    await expect.poll(() => once.deadLetters.count().then(({ total }) => total), { timeout: 15_000 }).toBe(1)
    await consumer.stop()
    expect(tried.length).toBeGreaterThan(2)
    expect(tried.at(-1)! - tried[0]!).toBeGreaterThanOrEqual(650)
    const spent = once.consumer(
      'quick',
      { from: once.outbox, attempts: 1 },
      { 'order.placed': async () => Promise.reject(new Error('down')) },
    )
    await spent.drain()
    expect((await once.deadLetters.count({ consumer: 'quick' })).total).toBe(1)
  })

  it('rests when everything fails alike, says so once, and goes on when it is over', async () => {
    const signals: Signal[] = []
    const once = open('alike', signals)
    const orders = Array.from({ length: 30 }, (_, n) => `o${n}`)
    for (const order of orders)
      await once.run({ scope: 's', key: order, input: 1 }, (op) => op.publish('order.placed', { order }))
    let down = true
    let calls = 0
    const applied = new Set<string>()
    const consumer = once.consumer(
      'mails',
      { from: once.outbox },
      {
        'order.placed': async ({ data }) => {
          calls++
          if (down) throw new Error('connect ECONNREFUSED 10.0.0.1:25')
          applied.add(data.order)
        },
      },
    )
    await consumer.start()
    const told = (): Signal[] =>
      signals.filter(
        (signal) =>
          signal.kind === 'troubled' && /messages failed with the same error/.test((signal.error as Error).message),
      )
    await expect.poll(() => told().length, { timeout: 15_000 }).toBe(1)
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(told()).toHaveLength(1)
    const during = calls
    down = false
    await expect.poll(() => applied.size, { timeout: 30_000 }).toBe(orders.length)
    expect(during).toBeLessThan(orders.length * 5)
    expect((await once.deadLetters.count()).total).toBe(0)
    await consumer.stop()
  }, 60_000)
}

describeClient('a message that fails', 'pg', story)
describeEmbedded('a message that fails', story)

it('is retried for an hour by default, unless the attempts are given', () => {
  const from = { kind: 'pulled', name: 'x', features: {}, open: () => {}, subscribe: () => {} } as never
  const of = (options: object): number =>
    checkConsumer({ deadlineMs: 1 } as never, 'c', { from, ...options }, { a: async () => {} }).retryForMs
  expect([of({}), of({ attempts: 3 }), of({ attempts: 3, retryFor: '5m' })]).toEqual([3_600_000, 0, 300_000])
})
