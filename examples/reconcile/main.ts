/**
 * A client without keys sends its charge again whenever an answer is lost. So the provider has charged some orders twice.
 * The reconciliation compares the shop's orders with the provider's charges, and refunds each surplus charge once.
 *
 * npm run example:reconcile
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { effectivelyOnce } from 'effectively-once'
import { reconciliation } from 'effectively-once/reconciliation'
import { sqliteStore } from 'effectively-once/sqlite'
import { Provider, type Charge } from './provider.ts'

// node:sqlite warns on every start that it is experimental. Only that warning is hidden.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})

const ORDERS = 200
const folder = await mkdtemp(join(tmpdir(), 'effectively-once-reconcile-'))
const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: join(folder, 'shop.db') }) })
await once.migrate()

const provider = new Provider()
const orders = Array.from({ length: ORDERS }, (_, n) => ({ order: `order-${String(n + 1).padStart(3, '0')}` }))
for (const { order } of orders) {
  // Without a key, the provider cannot know that the second request is the same charge.
  while (!provider.charge(order));
}
const before = provider.surplus()

const charges = reconciliation<{ order: string }, Charge>({
  once,
  name: 'charges of the client without keys',
  ours: () => orders,
  theirs: () => provider.chargesByOrder(),
  key: ({ order }) => order,
  compensate: { double: async ({ theirs }, { key }) => provider.refund(theirs.id, key) },
})

const { double } = await charges.plan()
const rules = { by: 'the example', why: 'a client without keys charged twice', canary: 3, rate: 1_000 } as const
const first = await charges.run(rules)
const again = await charges.run(rules)
console.log(`${ORDERS} orders, ${provider.charges} charges: ${before} too many`)
console.log(
  `the plan found ${double} double charges; ${first.compensated} were refunded, ${provider.refunds} refunds made`,
)
console.log(
  `a second run made no refund: ${provider.refunds} refunds, and ${provider.surplus()} surplus charges are left`,
)
const isRight = double === before && provider.refunds === before && provider.surplus() === 0
process.exitCode = isRight && again.compensated === before ? 0 : 1
await once.close()
await rm(folder, { recursive: true, force: true })
