import { expect, it } from 'vitest'
import { event, type Once } from '../../src/index.ts'
import { countCharges, insertCharge, outcomeOf } from '../support/charges.ts'
import { describeAll, type Place } from '../support/stores.ts'

const events = { 'met.made': event<{ n: string }>(({ n }) => n) }
// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type Shop = Once<any, typeof events>

function shopOf(place: Place): Shop {
  return place.once({ events }) as unknown as Shop
}

async function publishedOf({ bed }: Place, client: string, key: string): Promise<number> {
  const table = client === 'SQLite' ? 'effectively_once_event' : 'effectively_once.event'
  return (await bed.admin(`select id from ${table} where aggregateid = $1`, [key])).length
}

/** One row and one event under its own key. */
function charge(place: Place, once: Shop, key: string, answer = 'done'): Promise<unknown> {
  return once.run({ scope: 'u', key, input: key }, async ({ tx, publish }) => {
    await insertCharge(place, tx, key)
    await publish('met.made', { n: key })
    return answer
  })
}

/** What the user rolls back by a savepoint of his own. */
async function undone(place: Place, tx: unknown, work: () => Promise<unknown>): Promise<void> {
  await place.bed.raw(tx, 'savepoint mine')
  await work()
  await place.bed.raw(tx, 'rollback to savepoint mine')
}

describeAll('savepoints of the user', (place, client) => {
  const state = async (key: string): Promise<number[]> => [
    await countCharges(place, key),
    await publishedOf(place, client, key),
  ]

  it('take the events of the operations inside them along, and nobody else’s', async () => {
    const once = shopOf(place)
    await once.run({ scope: 'u', key: 'around', input: 1 }, async ({ tx, publish }) => {
      await publish('met.made', { n: 'around' })
      await charge(place, once, 'before')
      await undone(place, tx, () =>
        once.run({ scope: 'u', key: 'middle', input: 1 }, async (op) => {
          await op.publish('met.made', { n: 'middle' })
          await charge(place, once, 'deep')
        }),
      )
      await charge(place, once, 'after')
    })
    expect(await publishedOf(place, client, 'around')).toBe(1)
    for (const key of ['before', 'after']) expect([key, await state(key)]).toEqual([key, [1, 1]])
    for (const key of ['middle', 'deep']) expect([key, await state(key)]).toEqual([key, [0, 0]])
    await charge(place, once, 'deep')
    expect(await state('deep')).toEqual([1, 1])
  })

  it('of an operation that stands, inside another one', async () => {
    const once = shopOf(place)
    await once.run({ scope: 'u', key: 'outermost', input: 1 }, () =>
      once.run({ scope: 'u', key: 'stands', input: 1 }, async (op) => {
        await op.publish('met.made', { n: 'stands' })
        await undone(place, op.tx, () => charge(place, once, 'falls'))
      }),
    )
    expect([await publishedOf(place, client, 'stands'), ...(await state('falls'))]).toEqual([1, 0, 0])
  })

  it('the same operation again after it was undone: once, with its last answer', async () => {
    const once = shopOf(place)
    await once.run({ scope: 'u', key: 'tries twice', input: 1 }, async ({ tx }) => {
      await undone(place, tx, async () => {
        await charge(place, once, 'tried', 'first')
        await charge(place, once, 'tried', 'replays the first')
      })
      await charge(place, once, 'tried', 'second')
    })
    expect(await state('tried')).toEqual([1, 1])
    expect(await charge(place, once, 'tried', 'third')).toBe('second')
  })

  it('inside a transaction of the user’s that operations join', async () => {
    const once = shopOf(place)
    await place.bed.own(async (own) => {
      await once.join(own).run({ scope: 'u', key: 'joined around', input: 1 }, async (op) => {
        await op.publish('met.made', { n: 'joined around' })
        await undone(place, op.tx, () => charge(place, once, 'joined and undone'))
      })
    })
    expect(await publishedOf(place, client, 'joined around')).toBe(1)
    expect(await state('joined and undone')).toEqual([0, 0])
  })

  it('inside step.tx, and inside commit', async () => {
    const once = shopOf(place)
    const inside = async (tx: unknown, key: string): Promise<void> =>
      undone(place, tx, async () => {
        await charge(place, once, key)
        await charge(place, once, key)
      })
    await once.run({ scope: 'u', key: 'leased around', input: 1, lease: '5s' }, async ({ step, commit }) => {
      await step.tx('undoes', async ({ tx }) => inside(tx, 'undone in a step'))
      return commit(async ({ tx }) => inside(tx, 'undone in commit'))
    })
    for (const key of ['undone in a step', 'undone in commit']) {
      expect([key, await state(key)]).toEqual([key, [0, 0]])
      await charge(place, once, key)
      expect([key, await state(key)]).toEqual([key, [1, 1]])
    }
  })

  it('what was replayed inside them is remembered by nobody', async () => {
    const once = shopOf(place)
    await once.run({ scope: 'u', key: 'undoes a replay', input: 1 }, ({ tx }) =>
      undone(place, tx, async () => {
        await charge(place, once, 'replayed and undone')
        await charge(place, once, 'replayed and undone', 'ran twice')
      }),
    )
    expect(await charge(place, once, 'replayed and undone', 'ran')).toBe('ran')
    expect(await state('replayed and undone')).toEqual([1, 1])
  })

  it('a handler that rolls back past its own operation is told so, and the key stays free', async () => {
    const once = shopOf(place)
    let told = ''
    const outer = once.run({ scope: 'u', key: 'ends early', input: 1 }, async ({ tx }) => {
      await place.bed.raw(tx, 'savepoint early')
      const past = once.run({ scope: 'u', key: 'goes too far', input: 'goes too far' }, async (op) => {
        await insertCharge(place, op.tx, 'goes too far')
        await place.bed.raw(op.tx, 'rollback to savepoint early')
        await insertCharge(place, op.tx, 'goes too far')
      })
      told = await outcomeOf(past)
      await insertCharge(place, tx, 'ends early').catch(() => {})
    })
    expect(await outcomeOf(outer)).toMatch(/^ONCE_(?:TX_TAKEN|ROLLED_BACK)$/)
    expect(told).toBe('ONCE_TX_TAKEN')
    expect([await countCharges(place, 'goes too far'), await countCharges(place, 'ends early')]).toEqual([0, 0])
    await charge(place, once, 'goes too far')
    expect(await state('goes too far')).toEqual([1, 1])
  })
})
