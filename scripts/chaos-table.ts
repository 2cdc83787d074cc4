/**
 * The long run without a broker: every event delivered 1-5 times in random order from a table, to consumer processes
 * killed by SIGKILL at random.
 *
 * npm run chaos:table [events]
 */
import { startServers } from './servers/index.ts'
import { consumerChaos } from '../test/consumer/chaos.ts'

const TIMEOUT_MS = 1_800_000
const EVENTS = 100_000

const events = Number(process.argv[2] ?? EVENTS)
const servers = await startServers(['postgres'])
try {
  if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
  const kills = Math.max(3, Math.round(events / 2_500))
  const database = servers.postgres.url
  const result = await consumerChaos({ database, events, processes: 4, kills, timeoutMs: TIMEOUT_MS })
  console.log(result)
  const { lost, twice, inversions, deadLetters } = result
  const broken = Object.entries({ lost, twice, inversions, deadLetters }).filter(([, count]) => count > 0)
  for (const [what, count] of broken) console.error(`BROKEN: ${count} ${what}`)
  process.exitCode = broken.length > 0 ? 1 : 0
} finally {
  await servers.stop()
}
