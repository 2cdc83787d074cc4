/**
 * The simulator: one seed is one world, in which everything goes wrong that can.
 *
 * npm run sim -- --schedules 100000 --seed 1 --json     schedules, then every mutant
 * npm run sim -- --mutant all                           mutants alone, or one by its name
 */
import { start } from '../src/testing/sim/cli.ts'
import { buildMutant } from './mutants.ts'

start(buildMutant)
