import { afterEach, beforeEach, expect, it } from 'vitest'
import { memoryBroker, type MemoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { later } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'
import { INSERT, openWorld, type World } from './world.ts'

describePostgres('operations inside a consumer', (database) => {
  let world: World
  let broker: MemoryBroker

  beforeEach(async () => {
    world = await openWorld(database.url, 20, undefined, true)
    await world.pool.query(
      'truncate applied, effectively_once.inbox, effectively_once.dead_letter, effectively_once.attempt, effectively_once.record',
    )
    broker = memoryBroker()
  })
  afterEach(() => world.close())

  it('of a pipelined batch take turns: one that fails takes nothing of another with it', async () => {
    broker.publish(...Array.from({ length: 12 }, (_, n) => ({ id: `m${n}`, aggregate: `a${n}`, data: { n } })))
    const { once } = world
    const consumer = once.consumer(
      'pipelined',
      { from: broker.source, pipelined: true },
      {
        'step.made': async (event, { tx }) => {
          const { n } = event.data
          await Promise.allSettled([
            once.run({ scope: 'u', key: `run ${n}`, input: n }, async (op) => {
              await op.tx.query(INSERT, [`run ${n}`, event.subject, n])
              await later(n === 0 ? 40 : 0)
              if (n === 0) throw new TypeError('this one breaks')
              return 'done'
            }),
            tx.query(INSERT, [event.id, event.subject, n]),
          ])
        },
      },
    )
    await consumer.drain()
    const applied = await world.applied()
    const numbers = Array.from({ length: 12 }, (_, n) => n)
    expect(numbers.filter((n) => applied.get(`m${n}`) !== 1)).toEqual([])
    expect(numbers.filter((n) => applied.get(`run ${n}`) !== (n === 0 ? undefined : 1))).toEqual([])
    for (const n of numbers) {
      let ran = false
      await once.run({ scope: 'u', key: `run ${n}`, input: n }, async () => void (ran = true))
      expect({ n, ran }).toEqual({ n, ran: n === 0 })
    }
  })

  it('are remembered only when the batch committed', async () => {
    broker.publish({ id: 'first', aggregate: 'a', data: {} }, { id: 'second', aggregate: 'b', data: {} })
    const { once } = world
    const run = (): Promise<unknown> =>
      once.run({ scope: 'u', key: 'shared', input: 1 }, async ({ tx }) => {
        await tx.query(INSERT, ['shared', 'shared', 1])
        return 'done'
      })
    const consumer = once.consumer(
      'remembering',
      { from: broker.source, attempts: 1 },
      {
        'step.made': async (event) => {
          await run()
          if (event.id === 'second') {
            await run()
            throw new TypeError('both are rolled back')
          }
          if (event.id === 'first') throw new TypeError('the first, too')
        },
      },
    )
    await consumer.drain()
    expect((await world.applied()).get('shared')).toBe(undefined)
    await run()
    expect((await world.applied()).get('shared')).toBe(1)
  })

  it('that a savepoint of the handler’s own has undone publish nothing', async () => {
    broker.publish({ id: 'undoes', aggregate: 'a', data: {} }, { id: 'undoes too', aggregate: 'b', data: {} })
    const { once } = world
    const consumer = once.consumer(
      'undoing',
      { from: broker.source },
      {
        'step.made': async (event, { tx, publish }) => {
          const run = (key: string): Promise<unknown> =>
            once.run({ scope: 'u', key: `${key} ${event.id}`, input: 1 }, (op) =>
              op.publish('step.seen', { id: `${key} ${event.id}` }),
            )
          await publish('step.seen', { id: event.id })
          await run('kept')
          await tx.query('savepoint mine')
          await run('undone')
          await tx.query('rollback to savepoint mine')
        },
      },
    )
    await consumer.drain()
    const { rows } = await world.pool.query<{ of: string }>(
      `select aggregateid as of from effectively_once.event where type = 'step.seen' order by 1`,
    )
    expect(rows.map((row) => row.of)).toEqual(['kept undoes', 'kept undoes too', 'undoes', 'undoes too'])
  })
})
