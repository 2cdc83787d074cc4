import type { OutgoingEvent, Sink, Verdict } from '../sink/sink.ts'
import type { StoredEvent } from '../store/outbox.ts'

export interface Failure {
  readonly kind: 'failed'
  readonly error: unknown
  readonly retryable: boolean
}

/** 'behind': an earlier event of its aggregate must leave first, so it was not sent. */
export type Fate = 'sent' | 'behind' | Failure

export interface Parcel {
  readonly stored: StoredEvent
  readonly event: OutgoingEvent
}

/** Thrown when the sink itself is out of order. */
export class SinkDown extends Error {
  override readonly name: string = 'SinkDown'
  constructor(cause: unknown) {
    super(`the sink cannot send: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

export type Call = (events: readonly OutgoingEvent[]) => Promise<readonly Verdict[]>

/**
 * Events of some aggregates on their way, in order. Per aggregate one event is under way at a time, unless the sink
 * keeps the order itself; after a failure nothing of its aggregate follows. After `SinkDown`, `run` goes on where it was.
 */
export class Delivery {
  readonly parcels: readonly Parcel[]
  /** undefined: not decided yet. */
  readonly fates: (Fate | undefined)[]
  readonly #sink: Pick<Sink, 'orders' | 'batch'>
  readonly #failed = new Set<string>()
  sent = 0

  constructor(sink: Pick<Sink, 'orders' | 'batch'>, parcels: readonly Parcel[]) {
    this.#sink = sink
    this.parcels = parcels
    this.fates = Array.from({ length: parcels.length }, () => undefined)
  }

  /** `call` throws SinkDown. `probe`: one event goes alone first, to see whether the sink works. */
  async run(call: Call, probe: boolean): Promise<void> {
    let alone = probe
    for (let open = this.#open(); open.length > 0; open = this.#open()) {
      if (alone) open = open.slice(0, 1)
      alone = false
      const size = this.#sink.batch ?? open.length
      for (let from = 0; from < open.length; from += size) {
        const part = open.slice(from, from + size).filter((index) => !this.#leftBehind(index))
        if (part.length === 0) continue
        const verdicts = await call(part.map((index) => (this.parcels[index] as Parcel).event))
        for (const [i, index] of part.entries()) this.#decide(index, verdicts[i])
      }
    }
  }

  /** What may be sent next, by index: everything, or the first of each aggregate. */
  #open(): number[] {
    const open: number[] = []
    const seen = new Set<string>()
    for (let index = 0; index < this.parcels.length; index++) {
      if (this.fates[index] !== undefined || this.#leftBehind(index)) continue
      if (!this.#sink.orders) {
        const { aggregateId } = (this.parcels[index] as Parcel).stored
        if (seen.has(aggregateId)) continue
        seen.add(aggregateId)
      }
      open.push(index)
    }
    return open
  }

  #leftBehind(index: number): boolean {
    if (this.#failed.size === 0 || !this.#failed.has((this.parcels[index] as Parcel).stored.aggregateId)) return false
    this.fates[index] ??= 'behind'
    return true
  }

  #decide(index: number, verdict: Verdict | undefined): void {
    if (this.#leftBehind(index)) return
    if (verdict?.kind === 'sent') {
      this.fates[index] = 'sent'
      this.sent++
      return
    }
    this.#failed.add((this.parcels[index] as Parcel).stored.aggregateId)
    this.fates[index] = verdict ?? { kind: 'failed', error: new Error('the sink gave no verdict'), retryable: true }
  }
}
