import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PATCHES } from '../src/testing/sim/mutants/patches.ts'
import { WEATHER_MUTANTS } from '../test/weather/mutants.ts'
import { buildMutant, mutated } from './mutants.ts'

const MUTANT = { name: 'counts to two', file: 'src/limits.ts', find: 'RERUNS_MAX = 3', replace: 'RERUNS_MAX = 2' }

test('a mutant is a compiled copy with one change, and is gone when it is removed', async () => {
  const build = buildMutant(MUTANT)
  try {
    const limits = (await import(build.entry('src/limits.ts'))) as { RERUNS_MAX: number }
    expect(limits.RERUNS_MAX).toBe(2)
    expect(existsSync(build.entry('scripts/sim.ts'))).toBe(true)
    expect(readFileSync(new URL('../src/limits.ts', import.meta.url), 'utf8')).toContain(MUTANT.find)
  } finally {
    build.remove()
  }
  expect(existsSync(build.directory)).toBe(false)
})

test.each([
  [{ ...MUTANT, find: 'no such text' }, 'in src/limits.ts 0 times, not once'],
  [{ ...MUTANT, find: 'export const' }, /in src\/limits.ts \d{2,} times, not once/],
  [{ ...MUTANT, replace: MUTANT.find }, 'changes nothing'],
])('a mutant that is none fails loudly', (mutant, message) => {
  expect(() => mutated(mutant)).toThrow(message)
})

test.each([...PATCHES, ...WEATHER_MUTANTS, ...WEATHER_MUTANTS.flatMap(({ also }) => also ?? [])])(
  'there is a place for: $name',
  (patch) => {
    expect(mutated(patch)).not.toBe('')
  },
)
