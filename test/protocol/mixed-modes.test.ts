import { describe, expect, it } from 'vitest'
import type { Once } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeAll, type Place } from '../support/stores.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>
type Call = (key: string) => Promise<unknown>

const MODES = ['atomic', 'leased', 'batched'] as const
/** How often a caller asks again while another one holds the key. */
const ASKED_MAX = 200

let id = 1_000_000

/** One charge under one key, by each of the three modes. What is in `broken` fails after its row is written. */
function modesOf(place: Place, once: AnyOnce, broken = new Set<string>()): Record<(typeof MODES)[number], Call> {
  const fail = (key: string): void => {
    if (broken.has(key)) throw new TypeError('broken')
  }
  const batched = once.batched({
    statement: (key: string) => ({
      sql: 'insert into charges (id, key, amount) values ($1, $2, 1) returning key',
      values: [++id, key],
    }),
    respond: (_, key) => {
      fail(key)
      return key
    },
  })
  return {
    atomic: (key) =>
      once.run({ scope: 'u', key, input: key }, async ({ tx }) => {
        await insertCharge(place, tx, key)
        await later(2)
        fail(key)
        return key
      }),
    leased: (key) =>
      once.run({ scope: 'u', key, input: key, lease: '5s' }, async ({ step, commit }) => {
        await step('call', () => later(2))
        return commit(async ({ tx }) => {
          await insertCharge(place, tx, key)
          fail(key)
          return key
        })
      }),
    batched: (key) => batched({ scope: 'u', key, input: key }),
  }
}

describeAll('two modes on one key', (place) => {
  for (const first of MODES)
    for (const second of MODES)
      describe(`${first}, then ${second}`, () => {
        it('the first one counts, and the second is told its answer', async () => {
          const key = `${first} ${second} done`
          expect(await modesOf(place, place.once())[first](key)).toBe(key)
          expect(await modesOf(place, place.once())[second](key)).toBe(key)
          expect(await countCharges(place, key)).toBe(1)
        })

        it('what failed left no row: the second one runs, or is told to take a lease', async () => {
          const key = `${first} ${second} failed`
          const once = place.once()
          expect(await outcomeOf(modesOf(place, once, new Set([key]))[first](key))).not.toBe('value')
          expect(await countCharges(place, key)).toBe(0)
          // Recorded steps are calls that happened: only a leased run knows them and goes on from there.
          if (first === 'leased' && second !== 'leased')
            expect(await outcomeOf(modesOf(place, once)[second](key))).toBe('ONCE_OUTCOME_UNKNOWN')
          else expect(await modesOf(place, once)[second](key)).toBe(key)
          expect(await modesOf(place, place.once())[first](key)).toBe(key)
          expect(await countCharges(place, key)).toBe(1)
        })
      })

  it('all of them at once: one row a key, and everybody has its answer', { timeout: 30_000 }, async () => {
    const instances = [modesOf(place, place.once()), modesOf(place, place.once())]
    const keys = Array.from({ length: 8 }, (_, n) => `at once ${n}`)
    const calls = keys.flatMap((key) =>
      instances.flatMap((modes) => MODES.map((mode) => answerOf(() => modes[mode](key)))),
    )
    const answers = await Promise.all(calls)
    expect(answers).toEqual(keys.flatMap((key) => Array.from({ length: 6 }, () => key)))
    expect(await Promise.all(keys.map((key) => countCharges(place, key)))).toEqual(keys.map(() => 1))
  })
})

/** Asks again while somebody else runs the key. */
async function answerOf(call: () => Promise<unknown>): Promise<unknown> {
  for (let asked = 1; ; asked++) {
    try {
      return await call()
    } catch (error) {
      if ((error as { code?: string }).code !== 'ONCE_IN_FLIGHT' || asked > ASKED_MAX) throw error
      await later(10)
    }
  }
}
