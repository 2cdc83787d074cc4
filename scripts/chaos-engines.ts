/**
 * Our outbox into Kafka, a job with Kafka's transactions, and back into our inbox, while processes of each stage are
 * killed. Prints the counts, and fails when an effect was lost, doubled, foreign or out of order.
 *
 * npm run chaos:engines -- [--events N] [--kills K] [--processes P] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { pipelineChaos } from '../test/engines/pipeline-chaos.ts'

async function main(): Promise<number> {
  const { json, ...size } = readCounts({ events: [20_000, 1], kills: [24, 0], processes: [2, 1] })
  const servers = await startServers(['postgres', 'kafka'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    if ('missing' in servers.kafka) throw new Error(`no Kafka: ${servers.kafka.missing}`)
    const result = await pipelineChaos({ url: servers.kafka.url, database: servers.postgres.url, ...size })
    console.log(json ? JSON.stringify(result) : result)
    const { lost, twice, foreign, orderBreaks, resultsLost, resultsTwice, kills } = result
    return judged({
      'effects lost': lost,
      'effects doubled': twice,
      'effects without an event': foreign,
      'effects out of order': orderBreaks,
      'results of the job lost': resultsLost,
      'results of the job doubled': resultsTwice,
      'kills too few': size.kills - kills,
    })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
