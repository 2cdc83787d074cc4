import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Signal } from '../../src/index.ts'
import { messageIdentity } from '../../src/consumer/inbox/identity.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { describePostgres } from '../support/postgres.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

const NAME = 'shop'
const ATTEMPTS = 2

const isGivenBack = ({ kind }: Signal): boolean => kind === 'returned'

/** Two services, each with its own connections, and one broker that gives a message to the second while the first runs it. */
describePostgres('a message that is given up here while it runs there', (database) => {
  let here: World
  let there: World
  beforeEach(async () => {
    here = await openWorld(database.url)
    there = await openWorld(database.url)
    await here.pool.query(
      'truncate applied, effectively_once.inbox, effectively_once.dead_letter, effectively_once.attempt',
    )
  })
  afterEach(async () => {
    await here.close()
    await there.close()
  })

  it.each(['commits', 'fails'] as const)('is applied or set aside, never both: there it %s', async (ending) => {
    const broker = memoryBroker({ holdsForMs: 60 })
    const { id } = messageIdentity({ consumer: NAME, source: 'memory', message: 'm' })
    const inbox = pgStore(here.pool).inbox
    // It failed as often as it may: whoever gets it as a redelivery gives it up.
    for (let n = 0; n < ATTEMPTS; n++)
      await inbox.failed({ consumer: NAME, failures: [{ id, counted: false, error: 'no', fingerprint: 'f' }] })
    let open = (): void => undefined
    const gate = new Promise<void>((resolve) => (open = resolve))
    let running = false
    const options = { from: broker.source, attempts: ATTEMPTS }
    const first = there.once.consumer(NAME, options, {
      'step.made': async (event, { tx }) => {
        await tx.query(INSERT, [event.id, null, 1])
        running = true
        await gate
        if (ending === 'fails') throw new Error('no')
      },
    })
    let ran = 0
    const second = here.once.consumer(NAME, options, { 'step.made': async () => void ran++ })
    broker.publish({ id: 'm' })
    await first.start()
    await until(() => running)
    await second.start()
    // It came, could not be set aside, and was given back, again and again.
    const letters = (): Promise<number> => here.count('effectively_once.dead_letter')
    await until(async () => here.signals.filter(isGivenBack).length > 2 || (await letters()) > 0)
    expect(await letters()).toBe(0)
    open()
    await until(() => broker.left === 0)
    await Promise.all([first.stop(), second.stop()])
    const expected = ending === 'commits' ? { applied: 1, letters: 0 } : { applied: 0, letters: 1 }
    expect({
      applied: await here.count('applied'),
      letters: await here.count('effectively_once.dead_letter where state <> 3'),
    }).toEqual(expected)
    expect(ran).toBe(0)
    const told = [...here.signals, ...there.signals].filter(({ kind }) => kind === 'deadLetter')
    expect(told.length > 0).toBe(expected.letters > 0)
  })
})
