/**
 * Runs crash recoveries and promotions of PostgreSQL while producers, relays and consumers work. A segment of the
 * outbox is turned over before each one. Prints one line of JSON. Fails when publishing did not work within 5 s after
 * one of them, or when a guarantee was violated.
 *
 * npm run recoveries -- [--crashes N] [--promotions N] [--json]
 */
import { parseArgs } from 'node:util'
import { recoveries } from '../test/weather/recoveries.ts'
import { lineOf } from '../test/weather/violations.ts'

const TEXT = { type: 'string' } as const
const { values } = parseArgs({
  options: { crashes: TEXT, promotions: TEXT, json: { type: 'boolean', default: false } },
})

function whole(name: 'crashes' | 'promotions', fallback: number): number {
  const value = values[name] === undefined ? fallback : Number(values[name])
  if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} must be a whole number from 0`)
  return value
}

async function main(): Promise<number> {
  const tell = (line: string): void => console.error(`${Math.round(performance.now() / 1_000)} s: ${line}`)
  const result = await recoveries({ crashes: whole('crashes', 50), promotions: whole('promotions', 20), tell })
  console.log(values.json ? JSON.stringify(result) : result)
  for (const violation of result.violations) console.error(lineOf(violation))
  const { lost, twice, orderBreaks, stuck, silent } = result
  const broken = Object.entries({ lost, twice, 'out of order': orderBreaks, stuck, silent }).filter(([, n]) => n > 0)
  for (const [what, count] of broken) console.error(`BROKEN: ${count} ${what}`)
  return broken.length > 0 ? 1 : 0
}

process.exitCode = await main()
