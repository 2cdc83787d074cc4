import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isOnceError, type Signal } from '../../src/index.ts'
import { memoryBroker, type MemoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { Processes } from '../broker/support/processes.ts'
import { describePostgres } from '../support/postgres.ts'
import { QUEUE } from './table-source.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

describePostgres('how a consumer delivers', (database) => {
  let world: World
  let broker: MemoryBroker
  beforeEach(async () => {
    world = await openWorld(database.url)
    await world.pool.query(
      'truncate applied, effectively_once.inbox, effectively_once.dead_letter, effectively_once.attempt',
    )
    broker = memoryBroker()
  })
  afterEach(() => world.close())

  const advices = (): Signal[] => world.signals.filter(({ kind }) => kind === 'advice')

  it('leased: an outside call is made once, and a retry resumes after it', async () => {
    broker.publish({ id: 'paid' }, { id: 'paid' })
    const calls: string[] = []
    let failing = true
    const consumer = world.once.consumer(
      'leased',
      { from: broker.source, lease: '5s' },
      {
        'step.made': async (event, { step, commit }) => {
          const charge = await step('provider', async ({ key }) => {
            calls.push(key)
            return { id: `c-${calls.length}` }
          })
          if (failing) {
            failing = false
            throw new Error('after the call')
          }
          return commit(async ({ tx, publish }) => {
            await tx.query(INSERT, [charge.id, null, 1])
            await publish('step.seen', { id: event.id })
          })
        },
      },
    )
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    expect(calls).toHaveLength(1)
    expect(await world.applied()).toEqual(new Map([['c-1', 1]]))
    expect(await world.count('effectively_once.inbox')).toBe(1)
    broker.publish({ id: 'paid' })
    await consumer.drain()
    expect([calls.length, broker.left]).toEqual([1, 0])
    expect(await world.count(`effectively_once.event where payload->>'id' = 'paid'`)).toBe(1)
  })

  it('at least once: no inbox, every delivery runs', async () => {
    broker.publish({ id: 'twice' })
    const consumer = world.once.consumer(
      'plain',
      { from: broker.source, delivery: 'at-least-once' },
      {
        'step.made': async (event, { tx }) => void (await tx.query(INSERT, [event.id, null, 1])),
      },
    )
    await consumer.drain()
    broker.publish({ id: 'twice' })
    await consumer.drain()
    expect(await world.applied()).toEqual(new Map([['twice', 2]]))
    expect(await world.count('effectively_once.inbox')).toBe(0)
  })

  it('at most once: acknowledged before it runs, never tried again, and a failure is visible', async () => {
    broker.publish({ id: 'maybe' })
    let acknowledged = -1
    let tries = 0
    const consumer = world.once.consumer(
      'once only',
      { from: broker.source, delivery: 'at-most-once' },
      {
        'step.made': async () => {
          tries++
          acknowledged = broker.acknowledged
          throw new Error('no')
        },
      },
    )
    await consumer.drain()
    expect([tries, acknowledged, broker.left]).toEqual([1, 1, 0])
    expect(await world.once.deadLetters.list({ consumer: 'once only' })).toMatchObject([{ reason: 'failed' }])
  })

  it('at most once, of a log: the position is stored before anything runs', async () => {
    const source: typeof broker.source = {
      ...broker.source,
      features: { ...broker.source.features, positions: true },
      async open(params) {
        const subscription = await broker.source.open(params)
        const receive = subscription.receive.bind(subscription)
        let offset = 40
        subscription.receive = async (asked) => {
          const deliveries = await receive(asked)
          for (const delivery of deliveries) {
            Object.assign(delivery, { position: { partition: 'p', offset: String(offset), next: String(++offset) } })
          }
          return deliveries
        }
        return subscription
      },
    }
    broker.publish({ id: 'first' }, { id: 'second' })
    const stored: unknown[] = []
    const consumer = world.once.consumer(
      'log',
      { from: source, delivery: 'at-most-once', concurrency: 1 },
      {
        'step.made': async () => {
          const { rows } = await world.pool.query(`select next from effectively_once.position where consumer = 'log'`)
          stored.push(...rows)
        },
      },
    )
    await consumer.drain()
    expect(stored).toEqual([{ next: '41' }, { next: '42' }])
  })

  it.each([false, true])('poison in a batch costs nobody else anything (pipelined: %s)', async (pipelined) => {
    const name = `poison ${pipelined}`
    broker.publish(
      ...Array.from({ length: 150 }, (_, n) => ({ id: `${name} ${n}`, data: { n }, aggregate: `a${n % 30}` })),
    )
    const consumer = world.once.consumer(
      name,
      { from: broker.source, attempts: 1, onFailure: 'skip', pipelined },
      {
        'step.made': async (event, { tx }) => {
          await tx.query(INSERT, [event.id, event.subject, event.data.n])
          if (event.data.n % 40 === 7) await tx.query('select 1/0')
          // Swallowed: the transaction is aborted, whatever the handler believes.
          if (event.data.n === 100) await tx.query('select 1/0').catch(() => {})
        },
      },
    )
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    const bad = [7, 47, 87, 100, 127].map((n) => `${name} ${n}`)
    const applied = await world.applied()
    expect([applied.size, Math.max(...applied.values())]).toEqual([145, 1])
    expect(bad.filter((id) => applied.has(id))).toEqual([])
    const letters = await world.once.deadLetters.list({ consumer: name, state: 'skipped' })
    expect(letters.map(({ message }) => message).toSorted()).toEqual(bad.toSorted())
    expect(await world.count('effectively_once.inbox')).toBe(145)
    expect(await world.count('effectively_once.attempt')).toBe(0)
  })

  it('a message that kills its process is quarantined, and takes nobody along', async () => {
    await world.pool.query(QUEUE)
    await world.pool.query('truncate queue')
    const body = (id: string, aggregate: string): string =>
      JSON.stringify({
        specversion: '1.0',
        id,
        source: 's',
        type: 'step.made',
        subject: aggregate,
        data: { aggregate, n: 1 },
      })
    const bodies = [body('deadly', 'killer'), ...Array.from({ length: 20 }, (_, n) => body(`fine ${n}`, `f${n}`))]
    await world.pool.query('insert into queue (body) select unnest($1::text[])', [bodies])
    const processes = new Processes('../../consumer/consumer-process', [database.url, 'killer'])
    try {
      await until(async () => {
        // Another one for each that died.
        await processes.start().catch(() => {})
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        return (await world.count('queue')) === 0
      }, 90_000)
    } finally {
      await processes.end()
    }
    expect((await world.applied()).size).toBe(20)
    const letters = await world.once.deadLetters.list({ consumer: 'effects' })
    expect(letters).toMatchObject([{ message: 'deadly', reason: 'crashed', attempts: 3 }])
  }, 100_000)

  describe('the horizon', () => {
    const on = { 'step.made': async () => {} }

    it('refuses to forget before the broker does', async () => {
      const short = world.once.consumer('short', { from: broker.source, rememberFor: '12h' }, on)
      await expect(short.start()).rejects.toSatisfy((error) => isOnceError(error, 'ONCE_HORIZON_SHORT'))
      const told = world.once.consumer('told', { from: broker.source, rememberFor: '12h', horizon: 'warn' }, on)
      for (let starts = 0; starts < 2; starts++) await (await told.start()).stop()
      expect(advices()).toHaveLength(1)
    })

    it('warns of a broker that never forgets, and says nothing when all is well', async () => {
      const endless = { ...broker.source, redeliversFor: 'forever' } as const
      await (await world.once.consumer('endless', { from: endless }, on).start()).stop()
      expect(advices()).toHaveLength(1)
      await (await world.once.consumer('well', { from: broker.source }, on).start()).stop()
      expect(advices()).toHaveLength(1)
    })
  })

  it('old rows become marks, and a late duplicate is still one', async () => {
    broker.publish({ id: 'old' })
    const options = { from: broker.source, inboxFor: '1ms', horizon: 'warn' } as const
    const consumer = world.once.consumer('sweeping', options, {
      'step.made': async (event, { tx }) => void (await tx.query(INSERT, [event.id, null, 1])),
    })
    await consumer.drain()
    expect((await world.once.sweep()).inbox).toMatchObject({ marked: 1, rows: 0 })
    await world.pool.query(`update effectively_once.mark set marked_at = now() - interval '2 hours'`)
    expect((await world.once.sweep()).inbox).toMatchObject({ marked: 0, rows: 1 })
    expect(await world.count('effectively_once.inbox')).toBe(0)
    broker.publish({ id: 'old' })
    await consumer.drain()
    expect(await world.applied()).toEqual(new Map([['old', 1]]))
  })

  it('refuses what makes no sense', () => {
    const { source: from } = broker
    const on = { 'step.made': async () => {} }
    const wrong: [string, object, object][] = [
      ['', { from }, on],
      ['x'.repeat(201), { from }, on],
      ['a', {}, on],
      ['a', { from: {} }, on],
      ['a', { from }, {}],
      ['a', { from }, { 'step.made': 1 }],
      ['a', { from, batch: 0 }, on],
      ['a', { from, concurrency: 1.5 }, on],
      ['a', { from, attempts: -1 }, on],
      ['a', { from, delivery: 'exactly-once' }, on],
      ['a', { from, onFailure: 'explode' }, on],
      ['a', { from, lease: '5s', delivery: 'at-least-once' }, on],
      ['a', { from, rememberFor: 5 }, on],
      ['a', { from, key: 'id' }, on],
      ['a', { from, nonsense: true }, on],
    ]
    for (const [name, options, handlers] of wrong) {
      expect(() => world.once.consumer(name, options as never, handlers as never)).toThrow('ONCE_OPTION_INVALID')
    }
  })
})
