import { afterEach, beforeEach, expect, it } from 'vitest'
import { final, type Signal } from '../../src/index.ts'
import { memoryBroker, type MemoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { describePostgres } from '../support/postgres.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

describePostgres('a consumer', (database) => {
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

  const signalled = (kind: Signal['kind']): Signal[] => world.signals.filter((signal) => signal.kind === kind)

  it('applies each message once, however often it comes', async () => {
    const messages = Array.from({ length: 300 }, (_, n) => ({ id: `m${n}`, aggregate: `a${n % 7}`, data: { n } }))
    broker.publish(...messages, ...messages, ...messages)
    const consumer = world.once.consumer(
      'receipts',
      { from: broker.source },
      {
        'step.made': async (event, { tx, publish }) => {
          await tx.query(INSERT, [event.id, event.subject, event.data.n])
          await publish('step.seen', { id: event.id })
        },
      },
    )
    expect(await consumer.drain()).toBeGreaterThan(0)
    const applied = await world.applied()
    expect(applied.size).toBe(300)
    expect([...applied.values()].every((n) => n === 1)).toBe(true)
    expect(broker.left).toBe(0)
    expect(await world.count('effectively_once.inbox')).toBe(300)
    expect(await world.count(`effectively_once.event where type = 'step.seen'`)).toBe(300)
    // In order per aggregate.
    expect(
      await world.count(`applied a join applied b on a.aggregate = b.aggregate and a.n < b.n and a.seq > b.seq`),
    ).toBe(0)
  })

  it('retries what fails, and parks it after its last attempt with its timeline and causes', async () => {
    broker.publish(
      { id: 'ok', aggregate: 'x', data: {} },
      { id: 'bad', aggregate: 'y', data: { secret: 'pin 1234' }, tenant: 't1' },
      { id: 'next', aggregate: 'y', data: {} },
    )
    let tries = 0
    const consumer = world.once.consumer(
      'parking',
      { from: broker.source, attempts: 3, mask: (body) => body.replaceAll(/\d{4}/g, '****') },
      {
        'step.made': async (event, { tx, attempt }) => {
          await tx.query(INSERT, [event.id, event.subject, attempt])
          if (event.id !== 'bad') return
          tries++
          throw new Error(`no receipt for ${Math.random()}`, { cause: new TypeError('below') })
        },
      },
    )
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    // Once in the batch, then alone.
    expect(tries).toBeGreaterThanOrEqual(3)
    expect(await world.applied()).toEqual(new Map([['ok', 1]]))
    expect(broker.rejected.toSorted()).toEqual(['bad', 'next'])
    const letters = await world.once.deadLetters.list({ consumer: 'parking' })
    expect(letters.map(({ message, reason }) => [message, reason])).toEqual([
      ['bad', 'failed'],
      ['next', 'behind'],
    ])
    const [head] = letters
    expect(head).toMatchObject({ attempts: 3, blocks: 1, tenant: 't1', state: 'parked' })
    expect(head?.timeline).toHaveLength(3)
    expect(new Set(head?.timeline.map(({ fingerprint }) => fingerprint)).size).toBe(1)
    expect(head?.causes.map(({ name }) => name)).toEqual(['Error', 'TypeError'])
    expect(head?.body).toContain('pin ****')
    expect((await world.once.deadLetters.get(head?.id ?? '', { reveal: true }))?.body).toContain('pin 1234')
    expect(signalled('deadLetter')).toHaveLength(2)

    // A redelivery of a parked message is acknowledged without running.
    broker.publish({ id: 'bad', aggregate: 'y', data: {} })
    await consumer.drain()
    expect(broker.left).toBe(0)
    expect(await world.once.deadLetters.list({ consumer: 'parking' })).toHaveLength(2)
  })

  it('lets successors go on with skip, holds them with block', async () => {
    for (const onFailure of ['skip', 'block'] as const) {
      const name = `failing-${onFailure}`
      broker = memoryBroker()
      broker.publish({ id: `bad-${name}`, aggregate: 'z' }, { id: `next-${name}`, aggregate: 'z' })
      let failing = true
      const consumer = world.once.consumer(
        name,
        { from: broker.source, attempts: 2, onFailure },
        {
          'step.made': async (event, { tx }) => {
            if (event.id.startsWith('bad') && failing) throw new Error('no')
            await tx.query(INSERT, [event.id, event.subject, 1])
          },
        },
      )
      await consumer.start()
      if (onFailure === 'skip') {
        await until(() => broker.left === 0)
        expect((await world.applied()).get(`next-${name}`)).toBe(1)
        expect((await world.once.deadLetters.list({ consumer: name, state: 'any' }))[0]).toMatchObject({
          state: 'skipped',
        })
      } else {
        await until(() => signalled('failed').length >= 6)
        expect((await world.applied()).has(`next-${name}`)).toBe(false)
        failing = false
        await until(() => broker.left === 0)
        expect(
          await world.count(
            `applied where id = 'bad-${name}' and seq < (select seq from applied where id = 'next-${name}')`,
          ),
        ).toBe(1)
      }
      await consumer.stop()
    }
  })

  it('a final refusal is parked at once', async () => {
    broker.publish({ id: 'refused' })
    let tries = 0
    const consumer = world.once.consumer(
      'refusing',
      { from: broker.source },
      {
        'step.made': async () => {
          tries++
          throw final({ status: 422 })
        },
      },
    )
    await consumer.drain()
    expect(tries).toBe(1)
    expect(await world.once.deadLetters.list({ consumer: 'refusing' })).toMatchObject([
      { reason: 'refused', attempts: 1 },
    ])
  })

  it('unreadable messages are parked, unknown types are parked or passed', async () => {
    const bad = [
      { id: 'text', body: 'not json' },
      { id: 'array', body: '[1]' },
      { id: 'nul', body: '{"id":"a\\u0000b","source":"s","type":"t"}' },
      { id: 'noid', body: '{"source":"s","type":"t"}' },
    ]
    broker.publish(...bad, { id: 'odd', type: 'nobody.cares' })
    const on = { 'step.made': async () => {} }
    await world.once.consumer('reading', { from: broker.source, unknown: 'ignore' }, on).drain()
    expect(broker.left).toBe(0)
    const letters = await world.once.deadLetters.list({ consumer: 'reading' })
    expect(letters.map(({ reason }) => reason)).toEqual(['unreadable', 'unreadable', 'unreadable', 'unreadable'])
    broker.publish({ id: 'odd', type: 'nobody.cares' })
    await world.once.consumer('strict', { from: broker.source }, on).drain()
    expect(await world.once.deadLetters.list({ consumer: 'strict' })).toMatchObject([{ reason: 'unknownType' }])
  })

  it('a natural key makes two messages the same', async () => {
    broker.publish(...[1, 2, 3].map((n) => ({ id: `k${n}`, data: { invoice: 'i-1' } })))
    const options = { from: broker.source, key: (event: { data: { invoice: string } }) => event.data.invoice }
    await world.once
      .consumer('natural', options, {
        'step.made': async (event, { tx }) => void (await tx.query(INSERT, [event.data.invoice, null, 1])),
      })
      .drain()
    expect(await world.applied()).toEqual(new Map([['i-1', 1]]))
    expect(broker.left).toBe(0)
  })

  it('a concurrent duplicate elsewhere is given back, and nobody waits', async () => {
    broker.publish({ id: 'slow' })
    let running = 0
    let entered: () => void = () => {}
    const inside = new Promise<void>((resolve) => (entered = resolve))
    let go: () => void = () => {}
    const released = new Promise<void>((resolve) => (go = resolve))
    const on = {
      'step.made': async (
        event: { id: string },
        { tx }: { tx: { query(sql: string, values: unknown[]): Promise<unknown> } },
      ) => {
        running++
        await tx.query(INSERT, [event.id, null, running])
        entered()
        await released
      },
    }
    const first = await world.once.consumer('busy', { from: broker.source }, on).start()
    await inside
    const other = memoryBroker()
    other.publish({ id: 'slow' }, { id: 'quick', type: 'none' })
    const second = await world.once.consumer('busy', { from: other.source }, on).start()
    await until(() => signalled('returned').length > 0)
    expect(running).toBe(1)
    go()
    await until(() => broker.left === 0 && other.left === 0)
    await Promise.all([first.stop(), second.stop()])
    expect(running).toBe(1)
    expect(await world.applied()).toEqual(new Map([['slow', 1]]))
  })

  it('survives a broker that is away, and a store that is', async () => {
    const consumer = await world.once
      .consumer(
        'away',
        { from: broker.source },
        {
          'step.made': async (event, { tx }) => void (await tx.query(INSERT, [event.id, null, 1])),
        },
      )
      .start()
    broker.state = 'down'
    await until(() => signalled('troubled').length > 0)
    broker.state = 'up'
    broker.publish({ id: 'after' })
    await until(async () => (await world.applied()).get('after') === 1)
    await consumer.stop()
    expect(broker.left).toBe(0)
  })
})
