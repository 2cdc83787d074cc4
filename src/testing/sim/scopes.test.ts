import { describe, expect, test } from 'vitest'
import { crossingAddress } from './address.ts'
import { SCOPE_MUTANTS } from './mutants/scope-mutants.ts'
import { ANY } from './plan.ts'
import { runSchedule } from './run.ts'

const SEEDS = 30

describe('worlds with several tenants', () => {
  test('have names that read the same when they are written one after the other, and keys that are the same', () => {
    const [one, other, third, fourth] = [0, 1, 2, 3].map(crossingAddress)
    expect(`${one?.scope}${one?.key}`).toBe(`${other?.scope}${other?.key}`)
    expect(one).not.toEqual(other)
    expect([third?.key, third?.scope === fourth?.scope]).toEqual([fourth?.key, false])
  })

  test.each(SCOPE_MUTANTS)('$name: somebody gets the answer of somebody else, and I19 says so', async ({ flaw }) => {
    const broken = new Set<string>()
    for (let seed = 1; seed <= SEEDS; seed++) {
      const sound = await runSchedule(seed, undefined, { ...ANY, scopes: true })
      expect(sound.violations, `seed ${seed}`).toEqual([])
      const { violations } = await runSchedule(seed, flaw, { ...ANY, scopes: true })
      for (const violation of violations) broken.add(violation.slice(0, violation.indexOf(':')))
    }
    expect([...broken]).toContain('I19')
  })
})
