/**
 * The provider knows no keys. The client sends its charge again whenever an answer is lost, so some orders are charged
 * twice. Some attempts die inside the charge, so the outcome of these charges is unknown. The reconciliation compares
 * the recorded steps with the provider's charges. It settles the unknown ones, and refunds each surplus charge once.
 *
 * npm run example:reconcile
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { effectivelyOnce, type RecordedStep } from 'effectively-once'
import { reconciliation, settleStep } from 'effectively-once/reconciliation'
import { sqliteStore } from 'effectively-once/sqlite'
import { Provider, type Charge } from './provider.ts'

// node:sqlite warns on every start that it is experimental. Only that warning is hidden.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})

const ORDERS = 200
const DIES_EVERY = 40
const WHY = 'a client without keys charged twice'
const folder = await mkdtemp(join(tmpdir(), 'effectively-once-reconcile-'))
const store = sqliteStore({ file: join(folder, 'shop.db') })
const once = effectivelyOnce({ namespace: 'shop', store })
await once.migrate()
await store.transaction((tx) => tx.query('create table paid (number text primary key, charge text)'))

const provider = new Provider()
const since = new Date()
const orders = Array.from({ length: ORDERS }, (_, n) => `order-${String(n + 1).padStart(3, '0')}`)

/** Charges an order, as a leased operation with one step. The charge carries the id of the operation. */
function charge(order: string, dies = false): Promise<string> {
  return once.run({ scope: 'shop', key: order, input: order, lease: '5s', label: order }, async (op) => {
    const send = async (): Promise<{ charge: string }> => {
      // Without a key, the provider cannot know that the second request is the same charge.
      let made = provider.charge(op.id)
      while (made === null) made = provider.charge(op.id)
      if (dies) throw new Error('the process died before it recorded the charge')
      return { charge: made }
    }
    const paid = await op.step('charge', send, { keyed: false })
    return op.commit(async ({ tx }) => {
      await tx.query('insert into paid (number, charge) values ($1, $2)', [order, paid.charge])
      return paid.charge
    })
  })
}

let unknown = 0
for (const [n, order] of orders.entries()) {
  const dies = (n + 1) % DIES_EVERY === 0
  await charge(order, dies).catch(() => {})
  // The retry finds out that the outcome is unknown. It makes no second charge.
  if (dies) await charge(order).catch(() => unknown++)
}
const before = provider.surplus()

const charges = reconciliation<RecordedStep, Charge>({
  once,
  name: 'charges of the client without keys',
  async *ours({ after }) {
    const steps = once.operations.steps({ name: 'charge', since, ...(after === null ? {} : { after }) })
    for await (const step of steps) if (step.state === 'done') yield step
  },
  theirs: () => provider.chargesByOperation(),
  key: (entry) => ('operation' in entry ? entry.operation : entry.id),
  compensate: {
    double: async ({ theirs }, { key }) => provider.refund(theirs.id, key),
    async orphaned({ key: id, theirs }, { key }) {
      const result = { charge: theirs.id }
      const isSame = (recorded: typeof result): boolean => recorded.charge === theirs.id
      const settled = await settleStep(once, { id, step: 'charge', result, isSame, why: WHY })
      return settled === 'foreign' ? provider.refund(theirs.id, key) : settled
    },
  },
})

const plan = await charges.plan()
const rules = { by: 'the example', why: WHY, canary: 3, rate: 1_000 } as const
const first = await charges.run(rules)
const again = await charges.run(rules)
// Every order has its answer now, and the answer names the charge that is left.
let right = 0
for (const order of orders) if (provider.isLeft(await charge(order))) right++

console.log(
  `${ORDERS} orders, ${provider.charges} charges: ${before} too many, ${unknown} orders with an unknown outcome`,
)
console.log(
  `the plan found ${plan.double} double and ${plan.orphaned} orphaned charges; ${first.compensated} were compensated`,
)
console.log(
  `a second run made no refund: ${provider.refunds} refunds, and ${provider.surplus()} surplus charges are left`,
)
console.log(`${right} orders are answered with the charge that is left`)
const isRight = provider.refunds === before && provider.surplus() === 0 && right === ORDERS
process.exitCode = isRight && again.compensated === first.compensated ? 0 : 1
await once.close()
await rm(folder, { recursive: true, force: true })
