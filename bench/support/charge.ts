import { randomUUID } from 'node:crypto'

/** The business of every scenario: one charge, one event. */
export interface Charge {
  readonly account: string
  readonly amount: number
}

/** What the caller is answered. */
export interface Charged extends Charge {
  readonly id: string
}

export const SCOPE = 'merchant-1'
export const INSERT_CHARGE = 'insert into charge (account, amount) values ($1, $2) returning id'
export const INSERT_EVENT = 'insert into event (aggregatetype, aggregateid, type, payload) values ($1, $2, $3, $4)'

const ACCOUNTS = 1000
let made = 0

export function newCharge(): Charge {
  made += 1
  return { account: `account-${made % ACCOUNTS}`, amount: 100 + (made % 900) }
}

let nextKey: () => string = randomUUID

export function newKey(): string {
  return nextKey()
}

/** From now on the same keys in each run: where they fall in an index is a part of what is counted. */
export function newKeysInOrder(prefix: string): void {
  let made = 0
  nextKey = () => `${prefix}-${made++}`
}
