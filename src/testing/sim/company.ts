import type { Dice } from './dice.ts'

/**
 * What else uses the store beside an operation.
 * `meets`: other operations inside the same transaction and beside it.
 * `batches`: requests that share its transaction.
 * `services`: another service on the same database that uses the same names.
 * `neighbour`: the same service in another schema, with the same keys.
 */
export type Company = 'nobody' | 'meets' | 'batches' | 'services' | 'neighbour'

type Shares = readonly (readonly [Company, number])[]

const SHARES: Shares = [
  ['meets', 0.15],
  ['batches', 0.02],
  ['services', 0.02],
  ['neighbour', 0.02],
]
const SHARES_WITH_RELAYS: Shares = [
  ['meets', 0.3],
  ['services', 0.2],
]

export function drawCompany(dice: Dice, relayed: boolean): Company {
  let roll = dice.next()
  for (const [company, share] of relayed ? SHARES_WITH_RELAYS : SHARES) {
    if (roll < share) return company
    roll -= share
  }
  return 'nobody'
}
