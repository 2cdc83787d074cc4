/**
 * Two services with equal names for everything on one database, whose processes are killed by SIGKILL at random. Prints
 * what it counted and fails when a promise was broken.
 *
 * npm run chaos:services -- [--events N] [--kills K] [--seed S] [--json]
 */
import { parseArgs } from 'node:util'
import { startServers } from './servers/index.ts'
import { servicesUnderKills } from '../test/namespaces/chaos.ts'

const TIMEOUT_MS = 1_800_000
const TEXT = { type: 'string' } as const
const { values } = parseArgs({
  options: { events: TEXT, kills: TEXT, seed: TEXT, json: { type: 'boolean', default: false } },
})

function whole(name: 'events' | 'kills' | 'seed', fallback: number, min: number): number {
  const value = values[name] === undefined ? fallback : Number(values[name])
  if (!Number.isInteger(value) || value < min) throw new Error(`--${name} must be a whole number from ${min}`)
  return value
}

async function main(): Promise<number> {
  const [events, kills, seed] = [whole('events', 10_000, 1), whole('kills', 20, 0), whole('seed', 1, 0)]
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const { url: database } = servers.postgres
    if (!values.json) console.error(`${events} events of each service, ${kills} kills, seed ${seed}`)
    const result = await servicesUnderKills({ database, events, kills, seed, timeoutMs: TIMEOUT_MS })
    console.log(values.json ? JSON.stringify(result) : result)
    const { lost, twice, foreign } = result
    const broken = { lost, 'applied twice': twice, foreign, 'kills missing': kills - result.kills }
    const problems = Object.entries(broken).filter(([, n]) => n > 0)
    for (const [what, n] of problems) console.error(`BROKEN: ${n} ${what}`)
    return problems.length > 0 ? 1 : 0
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
