import type { Item } from './item.ts'

/** If this many aggregates in a row fail as if the sink were down, the sink is down. */
export const DOUBTS_MAX = 3
/** The same for events that failed before while others were sent, because such events say less about the sink. */
const KNOWN_DOUBTS_MAX = 16

/** An event whose failure may be the sink's fault. `answered`: the sink answered, so it can be reached. */
export interface Doubt {
  readonly item: Item
  readonly error: unknown
  readonly answered: boolean
}

/** Whether the event failed before, while others were sent. */
export function hasFailed({ item }: Doubt): boolean {
  return (item.held?.attempts ?? 0) > 0
}

/** Whether so many events are in doubt that the sink must be down. */
export function areMany(doubts: readonly Doubt[]): boolean {
  return doubts.length >= KNOWN_DOUBTS_MAX || doubts.filter((doubt) => !hasFailed(doubt)).length >= DOUBTS_MAX
}
