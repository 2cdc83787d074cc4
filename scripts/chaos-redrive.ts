/**
 * Dead letters redriven by the command line while its process and the consumers' are killed by SIGKILL, and the broker
 * delivers the same ids again. Prints what it counted and fails when a promise was broken.
 *
 * npm run chaos:redrive -- [letters] [kills]
 */
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
    const broken = { 'applied twice': twice, lost, 'out of order': outOfOrder, left: status.left }
    const problems = Object.entries(broken).filter(([, n]) => n > 0)
    for (const [what, n] of problems) console.error(`BROKEN: ${n} ${what}`)
    return problems.length > 0 ? 1 : 0
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
