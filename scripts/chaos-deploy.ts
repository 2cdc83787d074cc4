/**
 * Rolling deploys under load: three APIs, two relays and two consumers, replaced one by one with SIGTERM. Prints what it
 * counted and fails when a promise was broken.
 *
 * npm run chaos:deploy -- [--rolls N] [--seed S] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { deploysUnderLoad } from '../test/deploy/deploys.ts'

async function main(): Promise<number> {
  const { rolls, seed, json } = readCounts({ rolls: [10, 1], seed: [1, 0] })
  const servers = await startServers(['postgres', 'nats'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    if ('missing' in servers.nats) throw new Error(`no NATS: ${servers.nats.missing}`)
    const { url: database } = servers.postgres
    if (!json) console.error(`${rolls} rolls of seven processes, seed ${seed}`)
    const result = await deploysUnderLoad({ database, nats: servers.nats.url, rolls, seed })
    console.log(json ? JSON.stringify(result) : result)
    const { lost, twice, late, unanswered, wrong } = result
    return judged({ '5xx': result['5xx'], lost, twice, late, unanswered, wrong })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
