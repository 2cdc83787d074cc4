import { event } from 'effectively-once'

/** What a customer sends. */
export interface Order {
  readonly id: string
  readonly customer: string
  readonly sku: string
  readonly amount: number
  readonly card: 'good' | 'declined'
  readonly referrer: string
}

/** The events of the orders service. Events of one order keep their order. */
export const events = {
  'order.placed': event<{ order: string; sku: string; amount: number; referrer: string }>(({ order }) => order),
  'confirmation.due': event<{ order: string; customer: string; notBefore: string }>(({ order }) => order),
}

export type ServiceName = 'orders' | 'inventory' | 'email' | 'referrals'
export const SERVICES: readonly ServiceName[] = ['orders', 'inventory', 'email', 'referrals']

export const SKUS = ['tea', 'mug'] as const
export const STOCK = 1_000
/** The mail is sent this much later, so that a customer has time to change their mind. */
export const MAIL_DELAY_MS = 1_500
export const REWARD = 5
/** Credits to this account fail until an operator opens it. */
export const CLOSED_ACCOUNT = 'dora'
export const ACCOUNTS = ['ann', 'ben', 'cleo', CLOSED_ACCOUNT] as const

/** The secret with which the services sign their webhooks. Real services read it from their settings. */
export const SECRET = 'whsec_b3JkZXItZXhhbXBsZS1zZWNyZXQ='
