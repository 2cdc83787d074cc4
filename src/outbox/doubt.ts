import { RELAY_PROBE_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import type { Item } from './item.ts'
import type { Shard } from './shard.ts'

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

/** The events in doubt. Other calls decide about them, but a call that hangs must not keep them in doubt. */
export class Doubts {
  readonly #clock: Clock
  readonly #judge: () => void
  #list: Doubt[] = []
  #cancel: () => void = () => {}
  /** No other call has decided for a while. */
  isOverdue = false

  constructor(clock: Clock, judge: () => void) {
    this.#clock = clock
    this.#judge = judge
  }

  get first(): Doubt | undefined {
    return this.#list[0]
  }

  /** Whether each event failed before, while others were sent. */
  get areKnown(): boolean {
    return this.#list.every(hasFailed)
  }

  get areAnswered(): boolean {
    return this.#list.every(({ answered }) => answered)
  }

  /** Whether so many events are in doubt that the sink must be down. */
  get areMany(): boolean {
    return this.#list.length >= KNOWN_DOUBTS_MAX || this.#list.filter((of) => !hasFailed(of)).length >= DOUBTS_MAX
  }

  add(doubt: Doubt): void {
    this.#list.push(doubt)
    if (this.#list.length === 1) this.#watch()
  }

  /** Takes out the events in doubt, or those of these shards. */
  take(shards?: ReadonlySet<Shard>): Doubt[] {
    const taken = this.#list.filter(({ item }) => shards?.has(item.shard) ?? true)
    this.#list = this.#list.filter((doubt) => !taken.includes(doubt))
    if (this.#list.length === 0) this.#cancel()
    return taken
  }

  #watch(): void {
    this.isOverdue = false
    const judge = (): void => {
      this.isOverdue = true
      this.#judge()
      // Nothing could be decided, because other events wait to be sent first.
      if (this.#list.length > 0) this.#cancel = this.#clock.after(RELAY_PROBE_MS, judge)
    }
    this.#cancel = this.#clock.after(RELAY_PROBE_MS, judge)
  }
}

function hasFailed({ item }: Doubt): boolean {
  return (item.held?.attempts ?? 0) > 0
}
