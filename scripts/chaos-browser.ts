/**
 * Pays in Chromium, and reloads, closes or kills the tab at a random moment of each payment, behind a proxy that loses
 * requests and answers. The server is killed, too. Then pays at a server like Stripe's. Fails if an order was charged twice or not at all, or if a kind of
 * fault never happened.
 *
 * npm run chaos:browser -- [--payments 300] [--stripe 60] [--kills 10] [--seed 1] [--tabs 4] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { findChromium } from './servers/chromium.ts'
import { payInBrowser } from '../test/client/browser/payments.ts'

const { payments, stripe, kills, seed, tabs, json } = readCounts({
  payments: [300, 1],
  stripe: [60, 1],
  kills: [10, 0],
  seed: [1, 0],
  tabs: [4, 1],
})
const found = await findChromium()
if ('missing' in found) throw new Error(found.missing)
const how = { seed, atOnce: tabs, chromium: found.executable }
const ours = await payInBrowser({ ...how, server: 'effectively-once', payments, kills })
const theirs = await payInBrowser({ ...how, server: 'stripe', payments: stripe, kills: 0 })
const result = { payments, stripe, seed, ours, theirs }
console.log(json ? JSON.stringify(result) : result)
process.exitCode = Math.max(judged(ours.broken), judged(theirs.broken))
