import { expect } from 'vitest'
import { CASES } from './cases.ts'
import { BY, CONSUMER, type RedriveWorld } from './world.ts'

/** Cases that open a transaction, sweep a database, or write a business row in `commit`. */
const NEEDS_TRANSACTIONS: readonly string[] = [
  'settles what was applied before without running it; what is discarded meanwhile is left alone',
  'a holder that was taken over writes nothing; what ends its process again and again stays parked',
  'a leased letter that waited for longer than answers are kept runs again, after its steps',
  'a consumer that looks for redrives shows that it lives itself, and no other',
  'a leased consumer resumes after its recorded steps',
]

type LeasedCase = readonly [name: string, run: (world: RedriveWorld) => Promise<void>]

const OWN: readonly LeasedCase[] = [
  [
    'an applied letter whose process died before it was settled is not run again',
    async (world) => {
      await world.park({ id: 'one' }, { id: 'two' })
      const { redrives } = world.store
      const { id } = await world.once.redrive.run({}, { ...BY, canary: 0, rate: 10_000 })
      const { settle } = redrives
      let lost = 0
      redrives.settle = async (session, params) => {
        if (lost++ === 0) throw new Error('the connection is lost')
        return settle.call(redrives, session, params)
      }
      const consumer = await world.consumer().start()
      expect(await world.ended(id)).toMatchObject({ state: 'done', letters: 2, left: 0, failed: 0 })
      await consumer.stop()
      expect([...(await world.applied()).values()]).toEqual([1, 1])
      expect((await world.once.deadLetters.count({ state: 'redriven' })).total).toBe(2)
    },
  ],
  [
    'a message is parked by one of many processes, and none of them runs it afterwards',
    async (world) => {
      world.fails = () => new Error('no')
      const messages = Array.from({ length: 20 }, (_, n) => ({ id: `m${n}`, aggregate: `a${n % 5}` }))
      const consumers = [1, 2, 3].map(() => world.consumer())
      for (let turn = 0; turn < 3; turn++) world.broker.publish(...messages)
      await Promise.all(consumers.map((consumer) => consumer.drain()))
      expect((await world.once.deadLetters.list()).map(({ message }) => message).toSorted()).toEqual(
        messages.map(({ id }) => id).toSorted(),
      )
      world.fails = () => null
      world.broker.publish(...messages)
      await world.consumer().drain()
      expect((await world.applied()).size).toBe(0)
      expect((await world.once.deadLetters.get((await world.once.deadLetters.list())[0]?.id ?? ''))?.consumer).toBe(
        CONSUMER,
      )
    },
  ],
  [
    'an export is imported by another store, and redriven there',
    async (world) => {
      await world.park({ id: 'one', aggregate: 'a' }, { id: 'two', aggregate: 'a' })
      const lines: string[] = []
      for await (const line of world.once.deadLetters.export({}, { reveal: true })) lines.push(line)
      expect(lines).toHaveLength(2)
      expect(await world.once.deadLetters.import(lines, BY)).toMatchObject({ imported: 0, known: 2 })
      const { id } = await world.once.redrive.run({}, { ...BY, canary: 0, rate: 10_000 })
      await world.consumer().drain()
      expect(await world.once.redrive.status(id)).toMatchObject({ state: 'done', applied: 2 })
      expect(await world.once.deadLetters.import(lines, BY)).toMatchObject({ imported: 0, applied: 2 })
    },
  ],
]

/** What redrives promise on a store without transactions. */
export const LEASED_CASES: readonly LeasedCase[] = [
  ...Object.entries(CASES).filter(([name]) => !NEEDS_TRANSACTIONS.includes(name)),
  ...OWN,
]
