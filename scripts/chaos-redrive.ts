/**
 * Redrives dead letters from the command line. SIGKILL ends its process and those of the consumers, and the broker
 * delivers the same ids again. Prints the counts, and fails when a guarantee was violated.
 *
 * npm run chaos:redrive -- [letters] [kills]
 */
import { judged } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { redriveUnderKills } from '../test/redrive/kill-run.ts'

const TIMEOUT_MS = 600_000
const [letters = '5000', kills = '8'] = process.argv.slice(2)

async function main(): Promise<number> {
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const { url } = servers.postgres
    const result = await redriveUnderKills({
      url,
      letters: Number(letters),
      rate: 400,
      kills: Number(kills),
      timeoutMs: TIMEOUT_MS,
    })
    console.log(result)
    const { twice, lost, outOfOrder, status } = result
    return judged({ 'applied twice': twice, lost, 'out of order': outOfOrder, left: status.left })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
