import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

export function atomic(once: BenchOnce): Scenario {
  return { name: 'atomic', callers: CALLERS, operate: () => chargeOnce(once, newKey()) }
}

export function chargeOnce(once: BenchOnce, key: string, input = newCharge()): Promise<unknown> {
  const { account, amount } = input
  return once.run({ scope: SCOPE, key, input }, async function charge({ tx, publish }) {
    const { rows } = await tx.query<{ id: string }>(INSERT_CHARGE, [account, amount])
    const made = { id: rows[0]?.id ?? '', account, amount }
    await publish('charge.created', made)
    return made
  })
}
