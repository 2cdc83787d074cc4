import { INSERT_CHARGE, newCharge, newKey, SCOPE } from '../support/charge.ts'
import type { Charge } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

const MANY_CALLERS = 128
const POISON_EVERY = 100
const CHECK_VIOLATION = '23514'

export function batched(once: BenchOnce): Scenario {
  const charge = batchedCharge(once)
  return { name: 'batched', callers: CALLERS, operate: () => charge(newKey(), newCharge()) }
}

export function batched128(once: BenchOnce): Scenario {
  const charge = batchedCharge(once)
  return { name: 'batched128', callers: MANY_CALLERS, operate: () => charge(newKey(), newCharge()) }
}

/** Every hundredth request violates a constraint: it alone gets the error, and that counts as its answer. */
export function batchedPoison(once: BenchOnce): Scenario {
  const charge = batchedCharge(once)
  let sent = 0
  return {
    name: 'batchedPoison',
    callers: CALLERS,
    async operate() {
      sent += 1
      if (sent % POISON_EVERY !== 0) return charge(newKey(), newCharge())
      const code = await charge(newKey(), { ...newCharge(), amount: -1 }).then(
        () => 'no error',
        (error: { code?: string }) => error.code,
      )
      if (code !== CHECK_VIOLATION) throw new Error(`a violation was answered with ${code}`)
      return undefined
    },
  }
}

export function batchedCharge(once: BenchOnce): (key: string, input: Charge) => Promise<unknown> {
  const run = once.batched({
    statement: ({ account, amount }: Charge) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
    respond: function charge(rows, { account, amount }, { publish }) {
      const made = { id: String(rows[0]?.['id']), account, amount }
      void publish('charge.created', made)
      return made
    },
  })
  return (key, input) => run({ scope: SCOPE, key, input })
}
