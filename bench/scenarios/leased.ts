import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

/** A claim that commits, one recorded step, the final transaction: three commits instead of one. */
export function leased(once: BenchOnce): Scenario {
  return { name: 'leased', callers: CALLERS, operate: () => chargeLeased(once) }
}

function chargeLeased(once: BenchOnce): Promise<unknown> {
  const input = newCharge()
  const { account, amount } = input
  return once.run({ scope: SCOPE, key: newKey(), input, lease: '30s' }, async function charge({ step, commit }) {
    const paid = await step('pay', async ({ key }) => ({ reference: key.slice(0, 16) }))
    return commit(async ({ tx, publish }) => {
      const { rows } = await tx.query<{ id: string }>({
        name: 'insert_charge',
        text: INSERT_CHARGE,
        values: [account, amount],
      })
      const made = { id: rows[0]?.id ?? '', account, amount }
      await publish('charge.created', made)
      return { ...made, ...paid }
    })
  })
}
