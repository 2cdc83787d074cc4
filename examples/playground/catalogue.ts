import { event } from '../../src/index.ts'

/** What a customer asks the shop for. `causation` names the intent on its whole way. */
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

/** Each causation id is an aggregate of its own: nothing here needs an order. */
export type PlaygroundEvents = typeof events
