import type { Ack, Acked, EventPlace, HoldParams, SettledEvents, SettleHeldParams } from '../store/outbox.ts'
import type { ShardLease, TryHeldParams } from '../store/outbox.ts'
import { pauseWhileDownMs } from './backoff.ts'
import type { WakeSignal } from './wake-signal.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { LoopState } from './loop-state.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'

/** If this many tries fail in a row, and no event is sent in between, the destination is in trouble. */
const FAILURES_TOLD = 10

/** What was written, and may be reported. */
export interface Written {
  /** The shards that are still ours. */
  readonly ours: ReadonlySet<number>
  readonly parked: readonly EventPlace[]
}

/** Records what was sent and what is sent next, and reports it to observers. */
export class Ledger {
  readonly #parts: RelayParts
  readonly #leases: ShardLeases
  readonly #wake: WakeSignal
  readonly #state: LoopState
  #behind: HoldParams[] = []
  #failures = 0
  sent = 0

  constructor(parts: RelayParts, shardLeases: ShardLeases, wake: WakeSignal, state: LoopState) {
    this.#parts = parts
    this.#leases = shardLeases
    this.#wake = wake
    this.#state = state
  }

  /**
   * Tries until the write succeeds: a passing failure must not make the relay send the events again. Shards that are no
   * longer ours are dropped.
   */
  async ack(acks: readonly Ack[], hold: readonly HoldParams[]): Promise<Written> {
    const { outbox, sink } = this.#parts
    let acked: Acked | undefined
    for (let tries = 1; !acked; tries++) {
      const { server } = this.#leases
      acked = await outbox.ack({ destination: sink.name, acks, hold, server }).catch(this.#again(tries))
      if (acked) acked = await this.#accepted(acks, acked).catch(this.#again(tries))
    }
    this.#behind.push(...hold.filter(({ state, reason }) => state === 'parked' && reason === null))
    return { ours: this.#dropLost(acks, acked.ours), parked: acked.parked }
  }

  get hasBehind(): boolean {
    return this.#behind.length > 0
  }

  /** The events that were parked behind others since the last call. */
  tookBehind(): readonly HoldParams[] {
    const behind = this.#behind
    this.#behind = []
    return behind
  }

  /** Announces that held events are sent next. Returns the shards that are still ours. */
  async announce(params: TryHeldParams): Promise<ReadonlySet<number>> {
    const { outbox } = this.#parts
    let ours: readonly number[] | undefined
    for (let tries = 1; !ours; tries++) ours = await outbox.tryHeld(params).catch(this.#again(tries))
    return this.#dropLost(params.leases, ours)
  }

  /**
   * The same for held events. Writing it twice does no harm. If it is unknown whether it was written, the relay does
   * not know which events wait. So it releases these shards, and leases them again.
   */
  async settle(params: SettleHeldParams): Promise<SettledEvents> {
    const { outbox } = this.#parts
    try {
      let settled: SettledEvents | undefined
      for (let tries = 1; !settled; tries++) {
        settled = await outbox.settleHeld({ ...params, server: this.#leases.server }).catch(this.#again(tries))
        if (settled) settled = await this.#accepted(params.leases, settled).catch(this.#again(tries))
      }
      this.#dropLost(params.leases, settled.ours)
      return settled
    } catch (error) {
      const touched = new Set(params.touched.map(({ shard }) => shard))
      await this.#leases.giveBack([...this.#leases.shards.values()].filter(({ shard }) => touched.has(shard)))
      throw error
    }
  }

  /**
   * Undefined: the server restarted, so the write is repeated. After a promotion or a restore it is not repeated: the
   * server's consumers may have lost what was sent, so the events are sent again.
   */
  async #accepted<T extends Acked>(leases: readonly ShardLease[], written: T): Promise<T | undefined> {
    const isRefused = leases.some(({ shard }) => !written.ours.includes(shard))
    if (!isRefused || (await this.#leases.followServer()) !== 'restarted') return written
    await this.#pause(1)
    return undefined
  }

  /** If the relay stops meanwhile, the write is repeated at once. Commits do not end the pause. */
  #pause(tries: number): Promise<void> {
    const state = this.#state
    const { stopping } = state
    return this.#wake.pause(
      pauseWhileDownMs(this.#parts.random, tries),
      () => state.overdue || state.stopping !== stopping,
    )
  }

  #dropLost(leases: readonly ShardLease[], still: readonly number[]): ReadonlySet<number> {
    const ours = new Set(still)
    const lost = new Map(leases.filter(({ shard }) => !ours.has(shard)).map(({ shard, token }) => [shard, token]))
    const held = [...this.#leases.shards.values()]
    if (lost.size > 0) this.#leases.drop(held.filter(({ shard, token }) => lost.get(shard) === token))
    return ours
  }

  /** Writes again after a pause, unless the lease is in doubt or the relay stops. */
  #again(tries: number): (error: unknown) => Promise<undefined> {
    return async (error) => {
      const { observe } = this.#parts
      const { stopping, overdue, once } = this.#state
      if (!this.#leases.mayRun || once || (stopping && overdue)) throw error
      observe({ kind: 'troubled', task: 'relay', error })
      await this.#pause(tries)
    }
  }

  /**
   * Reports sent events always, because the sink has them, whichever relay owns the shard now. Reports parked events
   * only if they were written.
   */
  tell(sent: number, held: readonly HoldParams[], parked: readonly EventPlace[]): void {
    const { observe, sink } = this.#parts
    this.sent += sent
    if (sent > 0) observe({ kind: 'sent', destination: sink.name, events: sent })
    this.#tellFailures(sent, held)
    for (const { shard, seq } of parked) {
      const reason = held.find((of) => of.shard === shard && of.seq === seq)?.reason ?? ''
      observe({ kind: 'parked', destination: sink.name, shard, seq, reason })
    }
  }

  /** Without this signal, nobody would hear of a destination that refuses everything, until the first event is parked. */
  #tellFailures(sent: number, held: readonly HoldParams[]): void {
    const { observe, sink } = this.#parts
    const failed = held.filter(({ state, reason }) => state === 'waiting' && reason !== null)
    const before = this.#failures
    this.#failures = sent > 0 ? 0 : before + failed.length
    if (before >= FAILURES_TOLD || this.#failures < FAILURES_TOLD) return
    const text = `'${sink.name}' refused ${this.#failures} times in a row, and no event was sent: ${failed.at(-1)?.reason}`
    observe({ kind: 'troubled', task: 'relay', error: new Error(text) })
  }
}

/** Announces what is sent next, without moving the cursor. */
export function intent(of: Shard, tryingTo: number | null, attempt: number): Ack {
  const { shard, token, cursor, segment, counted } = of
  return { shard, token, cursor, segment, counted, tryingTo, attempt, from: cursor }
}
