/**
 * Runs two services with the same names on one database, and ends their processes by SIGKILL at random. Prints the
 * counts, and fails when a guarantee was violated.
 *
 * npm run chaos:services -- [--events N] [--kills K] [--seed S] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { servicesUnderKills } from '../test/namespaces/chaos.ts'

const TIMEOUT_MS = 1_800_000

async function main(): Promise<number> {
  const { events, kills, seed, json } = readCounts({ events: [10_000, 1], kills: [20, 0], seed: [1, 0] })
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const { url: database } = servers.postgres
    if (!json) console.error(`${events} events of each service, ${kills} kills, seed ${seed}`)
    const result = await servicesUnderKills({ database, events, kills, seed, timeoutMs: TIMEOUT_MS })
    console.log(json ? JSON.stringify(result) : result)
    const { lost, twice, foreign } = result
    return judged({ lost, 'applied twice': twice, foreign, 'kills missing': kills - result.kills })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
