import { expect, it } from 'vitest'
import type { Once } from '../../src/index.ts'
import { countCharges, insertCharge, outcomeOf } from '../support/charges.ts'
import { describeAll, type Place } from '../support/stores.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>
type Begin = (key: string) => Promise<unknown>

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })

function charging(place: Place, once: AnyOnce): Begin {
  return (key) => once.run({ scope: 'u', key, input: key }, ({ tx }) => insertCharge(place, tx, key))
}

function batching(once: AnyOnce): Begin {
  let id = 2_000_000
  const run = once.batched({
    statement: (key: string) => ({
      sql: 'insert into charges (id, key, amount) values ($1, $2, 1) returning key',
      values: [++id, key],
    }),
    respond: ([row]) => row,
  })
  return (key) => run({ scope: 'u', key, input: key })
}

/** The time in which whoever is told of the deadline may begin something. */
const GOES_ON = '250ms'

describeAll('a handler that goes on past the deadline of its operation begins nothing', (place) => {
  it.each(['run', 'batched', 'join of an own transaction', 'leased'] as const)('%s', async (how) => {
    const once = place.once()
    const begins: Record<typeof how, Begin> = {
      run: charging(place, once),
      batched: batching(once),
      'join of an own transaction': (key) =>
        place.bed.own((tx) =>
          once.join(tx).run({ scope: 'u', key, input: key }, (op) => insertCharge(place, op.tx, key)),
        ),
      leased: (key) =>
        once.run({ scope: 'u', key, input: key, lease: '5s' }, ({ commit }) =>
          commit(({ tx }) => insertCharge(place, tx, key)),
        ),
    }
    const key = `too late, ${how}`
    let told: Promise<string> | undefined
    const outer = once.run({ scope: 'u', key: `around ${key}`, input: 1, deadline: GOES_ON }, ({ signal }) => {
      told = aborted(signal).then(() => outcomeOf(begins[how](key)))
      return told
    })
    expect(await outcomeOf(outer)).toBe('ONCE_DEADLINE')
    expect(await told).toBe('ONCE_DEADLINE')
    expect(await countCharges(place, key)).toBe(0)
  })

  it.each(['run', 'join'] as const)('in the transaction around it either: %s', async (how) => {
    const once = place.once()
    const charge = charging(place, once)
    const key = `too late for the inner one, ${how}`
    const inside = await once.run({ scope: 'u', key: `around ${key}`, input: 1 }, async ({ tx }) => {
      let late: Promise<string> | undefined
      const join = (): Promise<unknown> =>
        once.join(tx).run({ scope: 'u', key, input: key }, (op) => insertCharge(place, op.tx, key))
      const inner = once.run({ scope: 'u', key: `inside, ${key}`, input: 1, deadline: GOES_ON }, ({ signal }) => {
        late = aborted(signal).then(() => outcomeOf(how === 'run' ? charge(key) : join()))
        return late
      })
      return [await outcomeOf(inner), await late]
    })
    expect(inside).toEqual(['ONCE_DEADLINE', 'ONCE_DEADLINE'])
    expect(await countCharges(place, key)).toBe(0)
  })

  it('of a leased operation either, unless it has committed', async () => {
    const once = place.once()
    const charge = charging(place, once)
    const leased = async (key: string, commits: boolean): Promise<string[]> => {
      let late: Promise<string> | undefined
      const operation = { scope: 'u', key: `around ${key}`, input: 1, lease: '5s', endsWithin: '1s' } as const
      const outer = once.run(operation, async ({ signal, commit }) => {
        const done = commits ? await commit(() => 'done') : undefined
        late = aborted(signal).then(() => outcomeOf(charge(key)))
        await late
        return done as never
      })
      return [await outcomeOf(outer), String(await late)]
    }
    expect(await leased('too late for a lease', false)).toEqual(['ONCE_DEADLINE', 'ONCE_DEADLINE'])
    expect(await leased('after a commit', true)).toEqual(['value', 'value'])
    expect(await countCharges(place, 'too late for a lease')).toBe(0)
    expect(await countCharges(place, 'after a commit')).toBe(1)
  })
})
