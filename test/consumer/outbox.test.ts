import { afterEach, beforeEach, expect, it } from 'vitest'
import { effectivelyOnce } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { events, INSERT, openWorld, until, type World } from './world.ts'

describePostgres('the outbox as a source', (database) => {
  let world: World
  beforeEach(async () => {
    world = await openWorld(database.url)
    await world.pool.query('truncate applied, effectively_once.inbox')
  })
  afterEach(() => world.close())

  const publish = async (from: number, to: number, delayMs = 0): Promise<void> => {
    for (let n = from; n < to; n++) {
      const notBefore = new Date(Date.now() + delayMs)
      await world.once.run({ scope: 's', key: `${Math.random()}`, input: n }, async ({ publish: send }) => {
        await send('step.made', { aggregate: `a${n % 5}`, n }, delayMs > 0 ? { notBefore } : {})
      })
    }
  }

  const consume = (name: string) =>
    world.once.consumer(
      name,
      { from: world.once.outbox },
      {
        'step.made': async (event, { tx }) => {
          await tx.query(INSERT, [event.id, event.data.aggregate, event.data.n])
        },
      },
    )

  it('applies what was published, in order, and goes on where it was', async () => {
    await publish(0, 40)
    const consumer = consume('own')
    expect(await consumer.drain()).toBe(40)
    expect(await consumer.drain()).toBe(0)
    await publish(40, 60)
    expect(await consume('own').drain()).toBe(20)
    const applied = await world.applied()
    expect([applied.size, Math.max(...applied.values())]).toEqual([60, 1])
    expect(
      await world.count('applied a join applied b on a.aggregate = b.aggregate and a.n < b.n and a.seq > b.seq'),
    ).toBe(0)
    // Another consumer has its own cursors.
    expect(await consume('other').drain()).toBe(60)
  })

  it('is woken by a commit of its own process, and shares with another one', async () => {
    const [one, two] = [consume('shared'), consume('shared')]
    await one.drain()
    await world.pool.query('truncate applied')
    await Promise.all([one.start(), two.start()])
    await publish(0, 30)
    await until(async () => (await world.applied()).size === 30)
    await Promise.all([one.stop(), two.stop()])
    expect(Math.max(...(await world.applied()).values())).toBe(1)
  })

  it('keeps a delayed event until its time', async () => {
    const consumer = consume('delayed')
    await consumer.drain()
    await world.pool.query('truncate applied')
    await publish(0, 3, 700)
    await publish(3, 4)
    await consumer.start()
    await until(async () => (await world.applied()).size === 1)
    await until(async () => (await world.applied()).size === 4)
    await consumer.stop()
    expect(await world.count(`effectively_once.held where destination = 'consumer delayed'`)).toBe(0)
  })

  it('a failing event is retried in place, and parked with its aggregate', async () => {
    const consumer = world.once.consumer(
      'failing',
      { from: world.once.outbox, attempts: 2 },
      {
        'step.made': async (event, { tx }) => {
          if (event.data.aggregate === 'bad') throw new Error('no')
          await tx.query(INSERT, [event.id, event.data.aggregate, event.data.n])
        },
      },
    )
    await world.once.run({ scope: 's', key: `${Math.random()}`, input: 0 }, async ({ publish: send }) => {
      for (const n of [1, 2, 3]) await send('step.made', { aggregate: 'bad', n })
      await send('step.made', { aggregate: 'good', n: 1 })
    })
    await consumer.start()
    await until(async () => (await world.once.deadLetters.count({ consumer: 'failing' })).total === 3)
    await consumer.stop()
    const letters = await world.once.deadLetters.list({ consumer: 'failing' })
    expect(letters.map(({ reason }) => reason)).toEqual(['failed', 'behind', 'behind'])
    expect(letters.map(({ body }) => (JSON.parse(body) as { data: { n: number } }).data.n)).toEqual([1, 2, 3])
  })
})

describeSqlite('the outbox as a source', (lab) => {
  it('applies what was published once', async () => {
    const store = await lab.store()
    const once = effectivelyOnce({ namespace: 'embedded', store, events, guard: 'off', sweep: false })
    for (let n = 0; n < 20; n++) {
      await once.run({ scope: 's', key: `${n}`, input: n }, async ({ publish }) => {
        await publish('step.made', { aggregate: `a${n % 3}`, n })
      })
    }
    const consumer = once.consumer(
      'own',
      { from: once.outbox },
      {
        'step.made': async (event, { tx }) => {
          await tx.query('insert into charge (key, amount) values ($1, $2)', [event.id, event.data.n])
        },
      },
    )
    expect(await consumer.drain()).toBe(20)
    expect(await consumer.drain()).toBe(0)
    const rows = await store.transaction((tx) => tx.query<{ n: number }>('select count(distinct key) as n from charge'))
    expect(rows.rows[0]?.n).toBe(20)
    await once.close()
  })
})
