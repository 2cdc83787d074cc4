import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { memoryBed } from './bed-memory.ts'
import { postgresBed } from './bed-postgres.ts'
import { sqliteBed } from './bed-sqlite.ts'
import type { Bed } from './bed.ts'
import { FROZEN_DEADLINE } from './freezes.ts'
import { mutated } from '../../scripts/mutants.ts'
import { PROGRAM_MUTANTS } from './mutants.ts'
import { runPrograms } from './run.ts'

/** `npm run fuzz:programs` plays as many as you like. */
const PROGRAMS = 100
const FROZEN_PROGRAMS = 20
const OPERATIONS_EACH = 5

function playsOn(open: () => Promise<Bed>, freezes = false): void {
  const programs = freezes ? FROZEN_PROGRAMS : PROGRAMS
  let bed: Bed | undefined
  beforeAll(async () => {
    bed = await open()
  })
  afterAll(() => bed?.close())

  it(`${programs} programs break no promise`, { timeout: 120_000 }, async () => {
    const told = (): void => {}
    const options = { programs, seed: 1, lanes: 4, shrinks: 1, untilFirst: false, freezes, told }
    const tally = await runPrograms(bed as Bed, options)
    expect([...tally.broken, ...tally.printed]).toEqual([])
    expect(tally.operations).toBeGreaterThan(programs * OPERATIONS_EACH)
  })
}

describe('programs nobody thought of, in memory', () => {
  playsOn(() => Promise.resolve(memoryBed()))
})
describe('programs nobody thought of, on SQLite', () => {
  playsOn(() => sqliteBed())
})
describe('programs nobody thought of, on SQLite with shared commits', () => {
  playsOn(() => sqliteBed({ store: 'sqlite-shared' }))
})
describePostgres('programs nobody thought of, on PostgreSQL', (database) => playsOn(() => postgresBed(database.url)))

describe('programs of a process that stands still, on SQLite', () => {
  playsOn(() => sqliteBed({ deadline: FROZEN_DEADLINE }), true)
})
describePostgres('programs of a process that stands still, on PostgreSQL', (database) =>
  playsOn(() => postgresBed(database.url, { deadline: FROZEN_DEADLINE }), true),
)

it.each(PROGRAM_MUTANTS)('the mutant "$name" still finds its place', (mutant) => {
  expect(mutated(mutant)).not.toBe('')
})
