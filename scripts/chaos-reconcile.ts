/**
 * Compares two sides with planted faults, while the comparing process is killed and the provider's answers are lost.
 * Prints the counts, and fails unless exactly the planted faults were found and each was compensated once.
 *
 * npm run chaos:reconcile -- [--entries N] [--faults M] [--kills K] [--seed S] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { reconciliationChaos } from '../test/reconciliation/chaos.ts'

async function main(): Promise<number> {
  const counts = { entries: [100_000, 1], faults: [1_000, 0], kills: [10, 0], seed: [1, 0] } as const
  const { json, ...chosen } = readCounts(counts)
  if (3 * chosen.faults > chosen.entries) throw new Error('--faults must be at most a third of --entries')
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    if (!json) console.error(`${chosen.entries} entries, ${chosen.faults} faults of each kind, seed ${chosen.seed}`)
    const result = await reconciliationChaos({ database: servers.postgres.url, ...chosen })
    console.log(json ? JSON.stringify(result) : result)
    const { found, missed, wrong, twice, compensated } = result
    return judged({
      'faults too many or too few': Object.values(found).filter((n) => n !== chosen.faults).length,
      'faults without a compensation': missed,
      'compensations without a fault': wrong,
      'faults compensated twice': twice,
      'compensations that were not counted': Math.abs(3 * chosen.faults - compensated),
      'kills too few': chosen.kills - result.kills,
      'answers lost too few': chosen.faults > 0 && result.lostAnswers === 0 ? 1 : 0,
    })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
