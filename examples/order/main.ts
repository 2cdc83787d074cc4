/**
 * One order, four services, each with its own database: charge the card, decrement the inventory, send the
 * confirmation, credit the referrer. Meanwhile the services are killed at random with SIGKILL. The table shows what
 * each customer saw, and how often each effect happened. The exit code is 1 if anything happened twice or was lost.
 *
 * npm run example:order -- --orders 20 --kills 10
 */
import { parseArgs } from 'node:util'
import { tableOf } from './report.ts'
import { runOrders } from './run.ts'

const USAGE = 'Use: npm run example:order -- [--orders 20] [--kills 10] [--seed n] [--json]'
const ORDERS_MAX = 1_000
const KILLS_MAX = 1_000

// node:sqlite warns on every start that it is experimental. Only that warning is hidden.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})

const options = readOptions()
if (typeof options === 'string') {
  console.error(`${options}. ${USAGE}`)
  process.exit(2)
}
const report = await runOrders({ ...options, say: (line) => void process.stderr.write(`${line}\n`) })
process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : `\n${tableOf(report)}`)
process.exitCode = report.ok ? 0 : 1

function readOptions(): { orders: number; kills: number; seed: number; json: boolean } | string {
  const text = { type: 'string' } as const
  try {
    const { values } = parseArgs({
      options: { orders: text, kills: text, seed: text, json: { type: 'boolean', default: false } },
    })
    const orders = Number(values.orders ?? 20)
    const kills = Number(values.kills ?? 10)
    const seed = Number(values.seed ?? Date.now() % 1_000_000)
    if (!Number.isInteger(orders) || orders < 1 || orders > ORDERS_MAX) return `--orders is from 1 to ${ORDERS_MAX}`
    if (!Number.isInteger(kills) || kills < 0 || kills > KILLS_MAX) return `--kills is from 0 to ${KILLS_MAX}`
    if (!Number.isInteger(seed) || seed < 0) return '--seed is a whole number'
    return { orders, kills, seed, json: values.json }
  } catch (error) {
    return error instanceof Error ? (error.message.split(/[.\n]/)[0] ?? '') : String(error)
  }
}
