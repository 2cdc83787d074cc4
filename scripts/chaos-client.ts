/**
 * Buys orders through a TCP proxy that loses requests, answers and connections, while the server and the client are
 * killed. Fails if an order was charged twice or not at all, if a call has neither its answer nor a typed refusal, if a kind
 * of fault never happened, or if too few kills hit something in flight.
 *
 * npm run chaos:client -- [--calls 10000] [--kills 25] [--seed 1] [--share 12 (percent)] [--sqlite 0|1] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { clientChaos } from '../test/client/chaos/chaos.ts'

const WITHIN_MS = 40 * 60_000

const { calls, kills, seed, share, sqlite, json } = readCounts({
  calls: [10_000, 1],
  kills: [25, 0],
  seed: [1, 0],
  share: [12, 0],
  sqlite: [0, 0],
})
const result = await clientChaos({
  calls,
  kills,
  seed,
  storage: sqlite > 0 ? 'sqlite' : 'file',
  faultShare: share / 100,
  withinMs: WITHIN_MS,
})
console.log(json ? JSON.stringify({ calls, kills, seed, share, ...result }) : result)
process.exitCode = judged(result.broken)
