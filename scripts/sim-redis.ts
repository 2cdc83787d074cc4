/**
 * The simulator of the Redis store: its real code and scripts, on a simulated primary and replica. One seed is one world.
 *
 * npm run sim:redis -- --schedules 2000 --seed 1 --json     schedules, then every mutant
 * npm run sim:redis -- --mutant all                         only mutants, or one by its name
 */
import { readArguments, type Wishes } from '../src/testing/sim/arguments.ts'
import { MUTANTS } from '../test/redis/sim/mutants.ts'
import { huntRedis, playRedis, type Hunt } from '../test/redis/sim/play.ts'

const HUNT_SCHEDULES = 3_000
const BROKEN_SHOWN = 5

async function main({ schedules, seed, json, mutant, mutants }: Wishes): Promise<number> {
  const hunted = MUTANTS.filter(({ name }) => mutants && (mutant === null || mutant === 'all' || mutant === name))
  if (hunted.length === 0 && mutants) return refuse(`no mutant is called ${JSON.stringify(mutant)}`)
  const played = await playRedis(seed, mutant === null ? schedules : 0)
  const hunts: Hunt[] = []
  for (const each of hunted) hunts.push(await huntRedis(each, HUNT_SCHEDULES))
  const { broken, ...counts } = played
  const killed = hunts.filter(({ broke }) => broke !== null)
  const summary = { ...counts, violations: broken.length, mutants: { killed: killed.length, total: hunts.length } }
  if (json) console.log(JSON.stringify(summary))
  else console.log(summary, ...killed.map(({ name, seed: at, broke }) => `\n${name}: seed ${at}, ${broke}`))
  for (const each of broken.slice(0, BROKEN_SHOWN)) console.error(`seed ${each.seed}: ${each.violations.join('\n  ')}`)
  for (const { name, broke } of hunts)
    if (broke === null) console.error(`survived ${HUNT_SCHEDULES} schedules: ${name}`)
  return broken.length > 0 || killed.length < hunts.length ? 1 : 0
}

function refuse(why: string): number {
  console.error(`sim:redis: ${why}`)
  return 2
}

const wishes = readArguments(process.argv.slice(2), 'schedules')
process.exitCode = typeof wishes === 'string' ? refuse(wishes) : await main(wishes)
