import { parseArgs } from 'node:util'

export interface Wishes {
  readonly cases: number
  readonly seed: number
  readonly json: boolean
  /** The name of a mutant, or 'all'. */
  readonly mutant: string | null
  /** How many differences are shrunk and printed. */
  readonly shrinks: number
  readonly untilFirst: boolean
}

/** A sentence when they cannot be understood. */
export function readArguments(args: readonly string[]): Wishes | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        cases: { type: 'string', default: '5000' },
        seed: { type: 'string', default: '1' },
        json: { type: 'boolean', default: false },
        mutant: { type: 'string' },
        shrink: { type: 'string', default: '3' },
        first: { type: 'boolean', default: false },
      },
    })
    const [cases, seed, shrinks] = [values.cases, values.seed, values.shrink].map(Number) as [number, number, number]
    if (!Number.isSafeInteger(cases) || cases < 1) return '--cases must be a whole number from 1'
    if (!Number.isSafeInteger(seed) || seed < 0) return '--seed must be a whole number from 0'
    if (!Number.isSafeInteger(shrinks) || shrinks < 0) return '--shrink must be a whole number from 0'
    return { cases, seed, json: values.json, mutant: values.mutant ?? null, shrinks, untilFirst: values.first }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
