import type { Ack, BlockedAggregate, HoldParams, SettleHeldParams } from '../store/outbox.ts'
import { backoffMs } from './backoff.ts'
import type { Bell } from './bell.ts'
import type { Keeper } from './keeper.ts'
import type { LoopState } from './loop-state.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'

/** Writes down what was sent and what is sent next, and tells whoever observes. */
export class Ledger {
  readonly #parts: RelayParts
  readonly #keeper: Keeper
  readonly #bell: Bell
  readonly #state: LoopState
  sent = 0

  constructor(parts: RelayParts, keeper: Keeper, bell: Bell, state: LoopState) {
    this.#parts = parts
    this.#keeper = keeper
    this.#bell = bell
    this.#state = state
  }

  /**
   * Writes until it is written: what was sent must not be sent again because of a passing trouble. Answers with the
   * shards that are still ours.
   */
  async ack(acks: readonly Ack[], hold: readonly HoldParams[]): Promise<ReadonlySet<number>> {
    const { outbox, sink } = this.#parts
    const ours = new Set(await this.#written(() => outbox.ack({ destination: sink.name, acks, hold })))
    const lost = new Map(acks.filter(({ shard }) => !ours.has(shard)).map(({ shard, token }) => [shard, token]))
    const held = [...this.#keeper.shards.values()]
    if (lost.size > 0) this.#keeper.drop(held.filter(({ shard, token }) => lost.get(shard) === token))
    return ours
  }

  /**
   * The same for held events; written twice it says the same. When it cannot be told whether it was written, nobody here
   * knows who waits: these shards are given back, and asked for anew.
   */
  async settle(params: SettleHeldParams): Promise<readonly BlockedAggregate[]> {
    try {
      return await this.#written(() => this.#parts.outbox.settleHeld(params))
    } catch (error) {
      const touched = new Set(params.touched.map(({ shard }) => shard))
      await this.#keeper.giveBack([...this.#keeper.shards.values()].filter(({ shard }) => touched.has(shard)))
      throw error
    }
  }

  async #written<T>(write: () => Promise<T>): Promise<T> {
    const { random, observe } = this.#parts
    for (let attempt = 1; ; attempt++) {
      try {
        return await write()
      } catch (error) {
        if (!this.#keeper.mayRun || this.#state.stopping || this.#state.once) throw error
        observe({ kind: 'troubled', task: 'relay', error })
        await this.#bell.wait(backoffMs(random, attempt))
      }
    }
  }

  tell(sent: number, held: readonly HoldParams[]): void {
    const { observe, sink } = this.#parts
    this.sent += sent
    if (sent > 0) observe({ kind: 'sent', destination: sink.name, events: sent })
    for (const { state, shard, seq, reason } of held) {
      if (state !== 'parked' || reason === null) continue
      observe({ kind: 'parked', destination: sink.name, shard, seq, reason })
    }
  }
}

/** Says what is sent next, without having sent anything. */
export function intent(of: Shard, tryingTo: number | null, attempt: number): Ack {
  const { shard, token, cursor, segment, counted } = of
  return { shard, token, cursor, segment, counted, tryingTo, attempt }
}
