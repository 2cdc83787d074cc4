import { inTime } from '../platform/in-time.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Sender } from './sender.ts'
import type { Shard } from './shard.ts'
import type { ShardLeases } from './shard-leases.ts'

/** The time between two probes doubles this often. */
const DOUBLED_MAX = 4

/**
 * A relay that cannot send for a whole lease leaves its shards to other relays. It keeps one shard, and tries to send
 * its events. After a second lease it leaves that shard, too, and asks the sink whether it can be reached.
 */
export class Withdrawal {
  readonly #parts: RelayParts
  readonly #leases: ShardLeases
  readonly #sender: Sender
  #probeAt = 0
  /** How often the sink was reachable, but nothing was sent. */
  #failures = 0

  constructor(parts: RelayParts, shardLeases: ShardLeases, sender: Sender) {
    this.#parts = parts
    this.#leases = shardLeases
    this.#sender = sender
  }

  /** `hasEvents`: by the events of such a shard the relay notices that the sink works again. */
  look(hasEvents: (shard: Shard) => boolean): void {
    const { sink, leaseMs, clock, observe } = this.#parts
    const { downForMs, down } = this.#sender.circuit
    if (down === 0) {
      this.#failures = 0
      this.#probeAt = 0
      this.#leases.stepAside(undefined)
    } else if (this.#leases.isAside) {
      if (!sink.open || downForMs < 2 * leaseMs) return
      this.#leases.stepAside('withoutShard')
      if (clock.now() >= this.#probeAt) void this.#probe()
    } else if (downForMs > leaseMs && this.#leases.hasOthers) {
      const owned = [...this.#leases.shards.values()]
      if (owned.length === 0 && !sink.open) return
      this.#leases.stepAside(owned.find(hasEvents) ?? owned[0] ?? 'withoutShard')
      const reason = `${sink.name}: nothing was sent from here for ${leaseMs} ms; the other relays take over`
      observe({ kind: 'troubled', task: 'relay', error: new Error(reason, { cause: this.#sender.trouble }) })
    }
  }

  /** A sink that can be reached gets events again. If it still cannot send, the next probe comes later. */
  async #probe(): Promise<void> {
    const { sink, leaseMs, clock } = this.#parts
    this.#probeAt = Infinity
    try {
      await inTime<unknown>(Promise.resolve(sink.open?.()), leaseMs, () => new Error('no answer'), clock)
      this.#sender.circuit.restart()
      this.#leases.stepAside(undefined)
      this.#failures++
    } catch {
      // The trouble was reported when the relay stepped aside.
    }
    this.#probeAt = clock.now() + leaseMs * 2 ** Math.min(this.#failures, DOUBLED_MAX)
  }
}
