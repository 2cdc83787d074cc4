import { setTimeout as sleep } from 'node:timers/promises'
import { bareCharge } from '../../hand/bare.ts'
import { flushStatistics } from '../../support/costs.ts'
import { openPool } from '../../support/database.ts'
import { sender } from '../../support/statement.ts'
import { startDbos } from './dbos.ts'
import { startExpressIdempotency } from './express-idempotency.ts'
import { startNodeIdempotency } from './node-idempotency.ts'
import type { StartPeer } from './peer.ts'
import { startPowertools } from './powertools.ts'

/** PostgreSQL collects the counters of an idle connection after ten seconds. */
const COLLECTED_MS = 11_000

const START: Readonly<Record<string, StartPeer>> = {
  nodeIdempotency: startNodeIdempotency,
  powertools: startPowertools,
  expressIdempotency: startExpressIdempotency,
  dbos: startDbos,
}

/** One peer in a process of its own. Tells its parent its port. */
const [name, databaseUrl, redisUrl] = process.argv.slice(2) as [string, string, string]
const start = START[name]
if (!start) throw new Error(`there is no peer ${name}`)
const pool = openPool(databaseUrl)
const { port, hasOwnConnections } = await start({
  databaseUrl,
  redisUrl,
  pool,
  charge: bareCharge(pool, sender('prepared'), false),
})
process.send?.(port)
process.on('message', () => {
  Promise.all([flushStatistics(pool), hasOwnConnections && sleep(COLLECTED_MS)]).then(
    () => process.send?.('flushed'),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit(0))
