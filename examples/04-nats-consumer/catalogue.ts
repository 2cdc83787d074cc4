import { event } from 'effectively-once'

/** The catalogue that publisher and consumer share: the data of each event, and the aggregate that keeps its order. */
export const events = {
  'charge.created': event<{ id: number; customer: string }>(({ customer }) => customer),
}
