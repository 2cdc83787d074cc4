import { event } from 'effectively-once'

/** What a customer asks the shop for. `causation` identifies the intent in every table and event. */
export interface Order {
  readonly causation: string
  readonly round: number
  readonly amount: number
}

export interface ChargeCreated extends Order {
  readonly charge: number
}

/** One catalogue for the shop, which publishes, and for the receipts, which consume. */
export const events = {
  'charge.created': event<ChargeCreated>((created) => created.causation),
}

/** Each causation id is its own aggregate, because nothing here needs an order. */
export type PlaygroundEvents = typeof events
