import { event } from '../../src/index.ts' // 'effectively-once'

/** What both sides share: what an event is, and what keeps it in order. */
export const events = {
  'charge.created': event<{ id: number; customer: string }>(({ customer }) => customer),
}
