import { expect, it } from 'vitest'
import { countCharges, insertCharge, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClients, type Place } from '../support/stores.ts'

/** Thrown by somebody's library; it throws again when anybody looks at it. */
function unreadable(): unknown {
  const look = (): never => {
    throw new RangeError('do not look')
  }
  return new Proxy({}, { get: look, has: look, getPrototypeOf: look })
}

/** More than the pool has connections. */
const TIMES = 12

async function everyone(place: Place, key: string): Promise<void> {
  const once = place.once()
  await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      once.run({ scope: 'u', key: `${key}, later ${i}`, input: 1, deadline: '5s' }, ({ tx }) =>
        insertCharge(place, tx, key),
      ),
    ),
  )
  expect(await countCharges(place, key)).toBe(10)
}

describeAll('what cannot be read', (place) => {
  it.each(['run', 'nested', 'commit', 'step.tx', 'step'])(
    'thrown in %s: it comes as it is, and holds nothing',
    async (where) => {
      const once = place.once()
      const thrown = unreadable()
      const fail = async (tx: unknown, at: string): Promise<void> => {
        await insertCharge(place, tx, `thrown in ${where}`)
        if (at === where) throw thrown
      }
      for (let i = 0; i < TIMES; i++) {
        const operation = { scope: 'u', key: `thrown in ${where} ${i}`, input: 1 }
        const run =
          where === 'run' || where === 'nested'
            ? once.run(operation, async ({ tx }) => {
                if (where === 'nested')
                  await once.run({ ...operation, key: `inner ${i}` }, (op) => fail(op.tx, 'nested'))
                await fail(tx, 'run')
              })
            : once.run({ ...operation, lease: '5s' }, async ({ step, commit }) => {
                if (where === 'step')
                  await step('a', async () => {
                    throw thrown
                  })
                await step.tx('b', ({ tx }) => (where === 'step.tx' ? fail(tx, 'step.tx') : Promise.resolve()))
                return commit(({ tx }) => fail(tx, 'commit'))
              })
        const [told] = await Promise.allSettled([run])
        expect(told.status === 'rejected' && told.reason === thrown).toBe(true)
      }
      expect(await countCharges(place, `thrown in ${where}`)).toBe(0)
      await everyone(place, `after ${where}`)
    },
  )
})

describeClients('a stored answer that cannot be read', (place) => {
  it('is told to every retry, and holds no connection', async () => {
    await place.once().run({ scope: 'u', key: 'spoilt', input: 1 }, async () => 'done')
    await place.bed.admin(`update effectively_once.answer set headers = '5'`)
    for (let i = 0; i < TIMES; i++) {
      const retry = place.once().run({ scope: 'u', key: 'spoilt', input: 1, deadline: '5s' }, async () => 'ran twice')
      expect(await outcomeOf(retry)).toBe('ONCE_INVARIANT')
    }
    await everyone(place, 'after a spoilt one')
  })
})
