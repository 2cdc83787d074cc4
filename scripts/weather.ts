/**
 * Runs producers, two relays, three consumers of two versions, PostgreSQL with a standby, and a broker. Meanwhile
 * servers are restarted, promoted and killed, connections go silent, and processes are paused, replaced and killed.
 * Prints one line of JSON. Fails when a guarantee was violated, or when a kind of fault never hit.
 *
 * npm run weather -- [--minutes N] [--seed S] [--broker none|nats|redis|kafka|rabbitmq] [--only kind,…] [--json]
 */
import { parseArgs } from 'node:util'
import { BROKERS, weather, type WeatherResult } from '../test/weather/weather.ts'
import { lineOf } from '../test/weather/violations.ts'

/** A relay that dies sends its in-flight events again. More calls per event indicate a resend storm. */
const CALLS_PER_EVENT_MAX = 2
const TEXT = { type: 'string' } as const
const { values } = parseArgs({
  options: { minutes: TEXT, seed: TEXT, broker: TEXT, only: TEXT, json: { type: 'boolean', default: false } },
})

function above(name: 'minutes' | 'seed', fallback: number): number {
  const value = values[name] === undefined ? fallback : Number(values[name])
  if (!(value >= 0)) throw new Error(`--${name} must be a number from 0`)
  return value
}

function problemsOf(result: WeatherResult): string[] {
  const { lost, twice, orderBreaks, stuck, silent, faults } = result
  const broken = Object.entries({ lost, twice, 'out of order': orderBreaks, stuck, silent })
  const never = Object.entries(faults).filter(([, hits]) => hits === 0)
  return [
    ...broken.flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : [])),
    ...(result.callsPerEvent > CALLS_PER_EVENT_MAX ? [`a storm: ${result.callsPerEvent} calls per event`] : []),
    ...never.map(([kind]) => `${kind} never hit`),
  ]
}

async function main(): Promise<number> {
  const broker = BROKERS.find((known) => known === (values.broker ?? 'none'))
  if (!broker) throw new Error(`--broker is one of ${BROKERS.join(', ')}`)
  const [minutes, seed] = [above('minutes', 2), above('seed', 1)]
  const only = values.only?.split(',')
  const tell = (line: string): void => console.error(`${Math.round(performance.now() / 1_000)} s: ${line}`)
  tell(`${minutes} minutes, seed ${seed}, broker ${broker}`)
  const result = await weather({ minutes, seed, broker, tell, ...(only ? { only } : {}) })
  console.log(values.json ? JSON.stringify(result) : result)
  for (const violation of result.violations) console.error(lineOf(violation))
  const problems = problemsOf(result)
  for (const problem of problems) console.error(`BROKEN: ${problem}`)
  return problems.length > 0 ? 1 : 0
}

process.exitCode = await main()
