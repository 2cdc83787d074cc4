import { afterEach, describe, expect, it } from 'vitest'
import { messageIdentity } from '../../src/consumer/inbox/identity.ts'
import { until } from '../consumer/world.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { letterLine, messageAt } from './letters.ts'
import { BY, CONSUMER, openRedriveWorld, temporaryFile, type Backend, type RedriveWorld } from './world.ts'

const MESSAGES = 1_200
const TIMEOUT_MS = 60_000

const idOf = (n: number): string => messageIdentity({ consumer: CONSUMER, source: 'memory', message: `m${n}` }).id
/** Of aggregates of their own: nobody waits behind another one's letter. */
const message = (n: number): { id: string; data: unknown } => ({ id: messageAt(n).id, data: {} })
const line = (n: number): string => JSON.stringify({ ...(JSON.parse(letterLine(n)) as object), aggregate: null })

function cases(backend: Backend, opened: () => Promise<RedriveWorld>): void {
  it(
    'beside messages that run: what is applied has no parked letter',
    async () => {
      const world = await opened()
      const numbers = Array.from({ length: MESSAGES }, (_, n) => n)
      let began = 0
      const consumer = world.once.consumer(
        CONSUMER,
        { from: world.broker.source, batch: 5, concurrency: 6 },
        {
          'step.made': async (event, { tx }) => {
            began++
            await world.write(tx, event.id)
          },
        },
      )
      world.broker.publish(...numbers.map(message))
      await consumer.start()
      const told = { lines: 0, imported: 0, applied: 0, known: 0, busy: 0 }
      // The later ones first: whoever comes to them meets them while they are written.
      const pages = [numbers.slice(MESSAGES / 2), numbers.slice(MESSAGES / 4, MESSAGES / 2), numbers]
      for (const [index, page] of pages.entries()) {
        await until(() => began > index * 100)
        const { busy, ...counts } = await world.once.deadLetters.import(page.map(line), BY)
        told.busy += busy.length
        for (const name of ['lines', 'imported', 'applied', 'known'] as const) told[name] += counts[name]
      }
      await consumer.drain()
      await consumer.stop()
      const applied = await world.applied()
      const parked = (await world.once.deadLetters.list({}, { limit: 10_000 })).map((letter) => letter.message)
      expect(parked.filter((id) => applied.has(id))).toEqual([])
      expect(new Set([...applied.keys(), ...parked]).size).toBe(MESSAGES)
      expect([...applied.values()].every((times) => times === 1)).toBe(true)
      expect(told.imported + told.applied + told.known + told.busy).toBe(told.lines)
    },
    TIMEOUT_MS,
  )

  it('tells which messages run at that moment, and leaves them alone', async () => {
    const world = await opened()
    let open: () => void = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    let inside: () => void = () => {}
    const running = new Promise<void>((resolve) => (inside = resolve))
    const consumer = world.once.consumer(
      CONSUMER,
      { from: world.broker.source },
      {
        'step.made': async (event, { tx }) => {
          await world.write(tx, event.id)
          inside()
          await gate
        },
      },
    )
    world.broker.publish(message(1))
    await consumer.start()
    await running
    const importing = world.once.deadLetters.import([line(1), line(2), line(2)], BY)
    // With one writer it waits for whoever has it.
    if (backend === 'sqlite') open()
    const nobody = { lines: 3, imported: 1, known: 1, applied: 0, busy: [] }
    expect(await importing).toEqual(backend === 'sqlite' ? { ...nobody, applied: 1 } : { ...nobody, busy: [idOf(1)] })
    open()
    await consumer.drain()
    await consumer.stop()
    expect(await world.applied()).toEqual(new Map([['m1', 1]]))
    expect(await world.once.deadLetters.import([line(1), line(2)], BY)).toEqual({
      ...nobody,
      lines: 2,
      imported: 0,
      applied: 1,
    })
    expect((await world.once.deadLetters.list()).map((letter) => letter.message)).toEqual(['m2'])
    const [last, first] = await world.once.redrive.audit({ limit: 2 })
    expect([first?.detail, last?.detail]).toMatchObject([{ lines: 3, imported: 1 }, { applied: 1 }])
  })
}

describe('an import of dead letters', () => {
  let undo: (() => Promise<void>)[] = []
  afterEach(async () => {
    for (const step of undo.toReversed()) await step()
    undo = []
  })

  describePostgres('on PostgreSQL', () => {
    cases('pg', async () => {
      const database = await freshDatabase()
      const world = await openRedriveWorld('pg', database.url)
      undo.push(database.drop, world.close)
      return world
    })
  })

  describe.each(['sqlite', 'memory'] as const)('on %s', (backend) => {
    cases(backend, async () => {
      const { file, remove } = await temporaryFile()
      const world = await openRedriveWorld(backend, file)
      undo.push(remove, world.close)
      return world
    })
  })
})
