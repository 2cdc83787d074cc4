import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

/** The handler's own statement is prepared, as in the versions by hand that the ratios are told against. */
const INSERT = { name: 'insert_charge', text: INSERT_CHARGE }

export function atomic(once: BenchOnce): Scenario {
  return { name: 'atomic', callers: CALLERS, operate: () => chargeOnce(once, newKey()) }
}

export function atomicNoEvent(once: BenchOnce): Scenario {
  return { name: 'atomicNoEvent', callers: CALLERS, operate: () => chargeQuietly(once) }
}

export function chargeOnce(once: BenchOnce, key: string, input = newCharge()): Promise<unknown> {
  const { account, amount } = input
  return once.run({ scope: SCOPE, key, input }, async function charge({ tx, publish }) {
    const { rows } = await tx.query<{ id: string }>({ ...INSERT, values: [account, amount] })
    const made = { id: rows[0]?.id ?? '', account, amount }
    await publish('charge.created', made)
    return made
  })
}

function chargeQuietly(once: BenchOnce): Promise<unknown> {
  const input = newCharge()
  const { account, amount } = input
  return once.run({ scope: SCOPE, key: newKey(), input }, async function charge({ tx }) {
    const { rows } = await tx.query<{ id: string }>({ ...INSERT, values: [account, amount] })
    return { id: rows[0]?.id ?? '', account, amount }
  })
}
