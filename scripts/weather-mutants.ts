/**
 * Reverts one fix at a time, in a copy of the repository, and runs the test that must detect it. A mutant counts as
 * killed if its test fails with it and passes without it.
 *
 * npm run weather:mutants -- [--mutant NAME] [--test FILE] [--limit SECONDS]
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { WEATHER_MUTANTS, type TestedMutant } from '../test/weather/mutants.ts'
import type { Ran } from './mutate/tests.ts'
import { Tree } from './mutate/tree.ts'
import { mutated, type PatchMutant } from './mutants.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')
const TEXT = { type: 'string' } as const
const { values } = parseArgs({ options: { mutant: TEXT, test: TEXT, limit: TEXT } })

async function main(): Promise<number> {
  const limitMs = Number(values.limit ?? 240) * 1_000
  if (!(limitMs > 0)) throw new Error('--limit is above 0')
  const { mutant: called = null, test: by = null } = values
  const hunted = WEATHER_MUTANTS.filter(({ name, test }) => name === (called ?? name) && test === (by ?? test))
  if (hunted.length === 0) throw new Error('there is no such mutant')
  const tree = await Tree.copy(ROOT)
  try {
    const ran = (test: string): Promise<Ran> => tree.tests.run(test, limitMs)
    const changed = <T>(work: () => Promise<T>, mutant?: PatchMutant): Promise<T> =>
      mutant ? tree.with(mutant.file, () => mutated(mutant), work) : work()
    const isKilled = async ({ test, also, ...mutant }: TestedMutant): Promise<boolean> =>
      (await changed(() => changed(() => ran(test), also), mutant)).kind === 'failed'
    const sound = new Map<string, boolean>()
    let killed = 0
    for (const mutant of hunted) {
      const { name, test } = mutant
      if (!sound.has(test)) sound.set(test, (await ran(test)).kind === 'passed')
      const verdict = sound.get(test) ? ((await isKilled(mutant)) ? 'killed' : 'lives') : 'fails without it, too'
      if (verdict === 'killed') killed += 1
      console.error(`${verdict}: ${name} (${test})`)
    }
    console.log(`${killed} of ${hunted.length} mutants killed`)
    return killed < hunted.length ? 1 : 0
  } finally {
    await tree.remove()
  }
}

process.exitCode = await main()
