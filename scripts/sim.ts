/**
 * The simulator. One seed is one world, with every kind of fault.
 *
 * npm run sim -- --schedules 100000 --seed 1 --json     schedules, then every mutant
 * npm run sim -- --mutant all                           only mutants, or one by its name
 */
import { start } from '../src/testing/sim/cli.ts'
import { buildMutant } from './mutants.ts'

start(buildMutant)
