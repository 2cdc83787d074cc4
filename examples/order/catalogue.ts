import { event } from '../../src/index.ts'

/** What a customer sends. */
export interface Order {
  readonly id: string
  readonly customer: string
  readonly sku: string
  readonly amount: number
  readonly card: 'good' | 'declined'
  readonly referrer: string
}

/** What the orders service tells the others. Both are kept in order per order. */
export const events = {
  'order.placed': event<{ order: string; sku: string; amount: number; referrer: string }>(({ order }) => order),
  'confirmation.due': event<{ order: string; customer: string; notBefore: string }>(({ order }) => order),
}

export type ServiceName = 'orders' | 'inventory' | 'email' | 'referrals'
export const SERVICES: readonly ServiceName[] = ['orders', 'inventory', 'email', 'referrals']

export const SKUS = ['tea', 'mug'] as const
export const STOCK = 1_000
/** Mail goes out this much later: time to change one's mind. */
export const MAIL_DELAY_MS = 1_500
export const REWARD = 5
/** Nobody can be credited on this account until somebody opens it. */
export const CLOSED_ACCOUNT = 'dora'
export const ACCOUNTS = ['ann', 'ben', 'cleo', CLOSED_ACCOUNT] as const

/** The services sign what they tell each other; with real services this comes from their settings. */
export const SECRET = 'whsec_b3JkZXItZXhhbXBsZS1zZWNyZXQ='
