import { parseArgs } from 'node:util'
import type { StoreName } from './program.ts'

export interface Wishes {
  readonly programs: number
  readonly seed: number
  readonly store: StoreName
  readonly json: boolean
  /** The name of a mutant, or 'all'. */
  readonly mutant: string | null
  /** How many violations are shrunk and printed. */
  readonly shrinks: number
  readonly untilFirst: boolean
  /** The process stands still at random moments. */
  readonly freezes: boolean
}

const STORES: readonly string[] = ['pg', 'sqlite', 'sqlite-shared', 'memory']

/** A sentence when they cannot be understood. */
export function readArguments(args: readonly string[]): Wishes | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        programs: { type: 'string', default: '2000' },
        seed: { type: 'string', default: '1' },
        store: { type: 'string', default: 'pg' },
        json: { type: 'boolean', default: false },
        mutant: { type: 'string' },
        shrink: { type: 'string', default: '1' },
        first: { type: 'boolean', default: false },
        freezes: { type: 'boolean', default: false },
      },
    })
    const [programs, seed, shrinks] = [values.programs, values.seed, values.shrink].map(Number) as [
      number,
      number,
      number,
    ]
    if (!Number.isSafeInteger(programs) || programs < 1) return '--programs must be a whole number from 1'
    if (!Number.isSafeInteger(seed) || seed < 0) return '--seed must be a whole number from 0'
    if (!Number.isSafeInteger(shrinks) || shrinks < 0) return '--shrink must be a whole number from 0'
    if (!STORES.includes(values.store)) return `--store must be one of ${STORES.join(', ')}`
    const store = values.store as StoreName
    return {
      programs,
      seed,
      store,
      json: values.json,
      mutant: values.mutant ?? null,
      shrinks,
      untilFirst: values.first,
      freezes: values.freezes,
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
