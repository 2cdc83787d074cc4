import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { mutated } from '../../scripts/mutants.ts'
import { WEATHER_MUTANTS } from './mutants.ts'

it.each(WEATHER_MUTANTS)('$name: its place and its test are there', ({ test, also, ...mutant }) => {
  expect(mutated(mutant)).toContain(mutant.replace)
  if (also) expect(mutated(also)).toContain(also.replace)
  expect(existsSync(test)).toBe(true)
})

it('the quickest one is killed', { timeout: 90_000 }, async () => {
  const command = ['--import', 'tsx', 'scripts/weather-mutants.ts', '--test', 'src/outbox/pace.test.ts']
  const { stdout } = await promisify(execFile)(process.execPath, command, { timeout: 85_000 })
  expect(stdout).toContain('1 of 1 mutants killed')
})
