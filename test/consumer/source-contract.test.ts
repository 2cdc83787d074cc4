import { describe, expect, test } from 'vitest'
import { memoryBroker, sourceContract } from '../../src/testing/source-contract/index.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { openWorld } from './world.ts'

describe('the source contract, in memory', () => {
  const cases = sourceContract(async () => {
    const broker = memoryBroker()
    return {
      source: broker.source,
      publish: broker.publish,
      publishText: (body) => broker.publish({ id: 'text', body }),
      close: async () => {},
    }
  })
  for (const { name, run } of cases) test(name, () => expect(run()).resolves.toBeUndefined())
})

describePostgres('the source contract, on PostgreSQL', () => {
  const open = async () => {
    const database = await freshDatabase()
    const world = await openWorld(database.url)
    const close = async (): Promise<void> => {
      await world.close()
      await database.drop()
    }
    return { world, close }
  }

  for (const { name, run } of sourceContract(async () => {
    const { world, close } = await open()
    return {
      source: world.once.outbox,
      close,
      async publish(...messages) {
        for (const { id, aggregate, data } of messages) {
          await world.pool.query(
            `insert into effectively_once.outbox (id, aggregatetype, aggregateid, type, payload, headers)
             values ($1, 'step', $2, 'step.made', $3, '{}')`,
            [id, aggregate, JSON.stringify(data)],
          )
        }
      },
    }
  }))
    test(`the outbox: ${name}`, () => expect(run()).resolves.toBeUndefined())
})
