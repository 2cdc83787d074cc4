import { afterEach, beforeEach, expect, it } from 'vitest'
import { messageIdentity } from '../../src/consumer/inbox/identity.ts'
import type { PulledSource } from '../../src/source/source.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { memoryBroker, type MemoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { describePostgres } from '../support/postgres.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

/** Order by arrival: a source that delivers an aggregate's events in order, to one process at a time. */
describePostgres('a consumer of a source with an order', (database) => {
  let world: World
  let broker: MemoryBroker
  let from: PulledSource<never>

  beforeEach(async () => {
    world = await openWorld(database.url)
    await world.pool.query(
      'truncate applied, effectively_once.inbox, effectively_once.dead_letter, effectively_once.attempt',
    )
    broker = memoryBroker()
    const { source } = broker
    from = { ...source, features: { ...source.features, orders: true } } as unknown as PulledSource<never>
  })
  afterEach(() => world.close())

  const message = (n: number): { id: string; aggregate: string; data: { n: number } } => ({
    id: `a-${n}`,
    aggregate: 'a',
    data: { n },
  })
  const item = (consumer: string, n: number) => ({
    ...messageIdentity({ consumer, source: 'memory', message: `a-${n}` }),
    source: 'memory',
    message: `a-${n}`,
    aggregate: 'a',
    previous: null,
  })
  const breaks = (): Promise<number> => world.count('applied where before <> n - 1')

  it('runs nobody before one that runs elsewhere and may be rolled back', async () => {
    const inbox = pgStore(world.pool).inbox
    const elsewhere = await inbox?.take({ consumer: 'order', items: [item('order', 1)], deadlineMs: 20_000 })
    expect(elsewhere?.states).toEqual(['taken'])
    broker.publish(message(1), message(2), message(3))
    const consumer = world.once.consumer('order', { from }, { 'step.made': apply })
    await consumer.start()
    await new Promise((resolve) => setTimeout(resolve, 700))
    const early = await world.count('applied')
    await elsewhere?.session.rollback()
    await until(() => broker.left === 0)
    await consumer.stop()
    expect([early, await world.count('applied'), await breaks()]).toEqual([0, 3, 0])
  })

  it('runs nobody before one that may have ended a process, and runs alone', async () => {
    const inbox = pgStore(world.pool).inbox
    await inbox?.open({ consumer: 'suspect', inboxForMs: 1e9, rememberForMs: 1e9, lettersForMs: 1e9 })
    await inbox?.trying({ consumer: 'suspect', ids: [item('suspect', 1).id] })
    broker.publish(message(1), message(2), message(3))
    const consumer = world.once.consumer('suspect', { from: redelivered(from) }, { 'step.made': apply })
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    expect([await world.count('applied'), await breaks()]).toEqual([3, 0])
  })

  it('parks those behind one that is parked in their batch', async () => {
    broker.publish({ ...message(1), type: 'step.unknown' }, message(2), message(3))
    const consumer = world.once.consumer('behind', { from, unknown: 'park' }, { 'step.made': apply })
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    const letters = await world.once.deadLetters.list({ consumer: 'behind' })
    expect(letters.map(({ message: id, reason }) => [id, reason])).toEqual([
      ['a-1', 'unknownType'],
      ['a-2', 'behind'],
      ['a-3', 'behind'],
    ])
    expect(await world.count('applied')).toBe(0)
  })
})

interface Op {
  readonly tx: { query(text: string, values: unknown[]): Promise<unknown> }
}

async function apply(event: { id: string; subject: string; data: { n: number } }, { tx }: Op): Promise<void> {
  await tx.query(INSERT, [event.id, event.subject, event.data.n])
}

/** Everything it delivers was delivered before. */
function redelivered(source: PulledSource<never>): PulledSource<never> {
  return {
    ...source,
    async open(params) {
      const subscription = await source.open(params)
      return {
        receive: async (asked) =>
          (await subscription.receive(asked)).map((delivery) =>
            Object.defineProperty(delivery, 'redelivered', { value: true }),
          ),
        ack: (deliveries) => subscription.ack(deliveries),
        giveBack: (deliveries, options) => subscription.giveBack(deliveries, options),
        close: () => subscription.close(),
      }
    },
  }
}
