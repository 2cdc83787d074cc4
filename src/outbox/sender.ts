import type { OutgoingEvent, Verdict } from '../sink/sink.ts'
import { backoffMs } from './backoff.ts'
import type { Bell } from './bell.ts'
import { SinkDown, type Delivery } from './delivery.ts'
import type { Keeper } from './keeper.ts'
import type { RelayParts } from './relay-parts.ts'

const LEASE_IN_DOUBT = new Error('the lease is in doubt')

/** What `deliver` gave up for: nothing of it was lost, it is sent by whoever owns the shards next. */
export type Delivered = 'done' | 'stopped' | 'leaseLost'

export interface SenderState {
  /** The relay was told to stop. */
  readonly stopping: boolean
  readonly paused: boolean
}

/**
 * Sends, with patience: while the sink is out of order the circuit is open, and only one event is tried after each
 * pause. Nothing is sent while the lease is in doubt.
 */
export class Sender {
  readonly #parts: RelayParts
  readonly #keeper: Keeper
  readonly #bell: Bell
  /** Failures in a row: the circuit is open when there are any. */
  #down = 0
  /** How often a sink may be out of order before `deliver` throws: only what runs once gives up. */
  readonly #patience: number

  constructor(parts: RelayParts, keeper: Keeper, bell: Bell, patience: number) {
    this.#parts = parts
    this.#keeper = keeper
    this.#bell = bell
    this.#patience = patience
  }

  async deliver(delivery: Delivery, state: SenderState): Promise<Delivered> {
    for (;;) {
      if (state.stopping) return 'stopped'
      if (!this.#keeper.mayRun) return 'leaseLost'
      if (state.paused) {
        await this.#bell.wait(this.#parts.leaseMs)
        continue
      }
      try {
        await delivery.run((events) => this.#call(events), this.#down > 0)
        this.#down = 0
        return 'done'
      } catch (error) {
        if (!(error instanceof SinkDown)) throw error
        if (error.cause === LEASE_IN_DOUBT) return 'leaseLost'
        this.#down++
        this.#parts.observe({ kind: 'troubled', task: 'relay', error })
        if (this.#down >= this.#patience) throw error
        await this.#pause(backoffMs(this.#parts.random, this.#down), state)
      }
    }
  }

  /** One call of the sink, with an end. */
  async #call(events: readonly OutgoingEvent[]): Promise<readonly Verdict[]> {
    if (!this.#keeper.mayRun) throw new SinkDown(LEASE_IN_DOUBT)
    const { clock, leaseMs, sink } = this.#parts
    const late = new AbortController()
    let cancel = (): void => {}
    const timeout = new Promise<never>((_, reject) => {
      cancel = clock.after(leaseMs / 2, () => {
        const error = new Error(`no verdict within ${leaseMs / 2} ms`)
        late.abort(error)
        reject(error)
      })
    })
    try {
      return await Promise.race([sink.send(events, { signal: late.signal }), timeout])
    } catch (error) {
      throw new SinkDown(error)
    } finally {
      cancel()
    }
  }

  async #pause(ms: number, state: SenderState): Promise<void> {
    const { clock } = this.#parts
    const until = clock.now() + ms
    while (!state.stopping && clock.now() < until) await this.#bell.wait(until - clock.now())
  }
}
