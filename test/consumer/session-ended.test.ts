import { expect, it } from 'vitest'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { countCharges, insertCharge } from '../support/charges.ts'
import { describeClients, type Place } from '../support/stores.ts'

interface Case {
  readonly delivery?: 'once' | 'at-least-once'
  /** Whether the statement after the end is the handler's own, or one of a nested run. */
  readonly nested?: boolean
  /** So many messages of the batch come before it. */
  readonly before: number
}

const CASES: Readonly<Record<string, Case>> = {
  alone: { before: 0 },
  'in a batch': { before: 2 },
  'in a nested run': { before: 0, nested: true },
  'at least once': { before: 0, delivery: 'at-least-once' },
}

describeClients('a session that an operator ends under the handler of a message', (place) => {
  it.each(Object.entries(CASES))('is not held against the message: %s', async (name, { delivery, nested, before }) => {
    const once = place.once()
    const broker = memoryBroker()
    const ids = Array.from({ length: before + 1 }, (_, n) => `${name} ${n}`)
    for (const id of ids) broker.publish({ id, aggregate: id, data: {} })
    let kills = 0
    const work = async (tx: unknown, id: string): Promise<void> => {
      await insertCharge(place, tx, id)
      if (id !== ids.at(-1) || ++kills > 2) return
      await terminateOwn(place, tx)
      await place.bed.raw(tx, 'select 1 as late')
    }
    const consumer = once.consumer(
      `ended ${name}`,
      { from: broker.source, attempts: 1, ...(delivery && { delivery }) },
      {
        'step.made': async ({ id }: { id: string }, { tx }: { tx: unknown }) => {
          if (nested) await once.run({ scope: 'u', key: id, input: id }, ({ tx: inner }) => work(inner, id))
          else await work(tx, id)
        },
      } as never,
    )
    await consumer.drain()
    expect(await once.deadLetters.list({ consumer: `ended ${name}` })).toEqual([])
    for (const id of ids) expect([id, await countCharges(place, id)]).toEqual([id, 1])
    expect(kills).toBe(3)
  })

  it('counts against a message that takes every session along', async () => {
    const once = place.once()
    const broker = memoryBroker()
    broker.publish({ id: 'deadly', aggregate: 'deadly', data: {} })
    const consumer = once.consumer('deadly', { from: broker.source, attempts: 1 }, {
      'step.made': async (_event: unknown, { tx }: { tx: unknown }) => {
        await terminateOwn(place, tx)
        await place.bed.raw(tx, 'select 1 as late')
      },
    } as never)
    await consumer.drain()
    const letters = await once.deadLetters.list({ consumer: 'deadly' })
    expect(letters.map(({ message, reason }) => [message, reason])).toEqual([['deadly', 'failed']])
  })
})

async function terminateOwn({ bed }: Place, tx: unknown): Promise<void> {
  const [row] = await bed.raw(tx, 'select pg_backend_pid() as pid')
  await bed.admin('select pg_terminate_backend($1::int)', [row?.['pid']])
}
