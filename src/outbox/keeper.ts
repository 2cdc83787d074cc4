import { RELAY_BEAT_MS_MIN, SHARDS } from '../limits.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Outbox } from '../store/outbox.ts'
import { Shard } from './shard.ts'

export interface KeeperParts {
  readonly outbox: Outbox
  readonly clock: Clock
  readonly observe: Observe
  readonly destination: string
  readonly relay: string
  readonly leaseMs: number
  /** Something changed: the loop should look. */
  readonly tell: () => void
}

/** Keeps this relay's fair share of the shards leased: 64 among all relays that live. */
export class Keeper {
  readonly shards: Map<number, Shard> = new Map()
  readonly #parts: KeeperParts
  #share = 0
  #free = 0
  #freeSeen = false
  #dueSeen = false
  #provenAt = -Infinity
  #beating: Promise<void> | undefined
  #stopped = false
  #cancel: () => void = () => {}

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    await this.#parts.outbox.open({ destination: this.#parts.destination })
    await this.#beat()
    this.#arm(this.#parts.leaseMs / 3)
    try {
      await this.tend()
    } catch (error) {
      // Nobody will relay here: its heartbeats would keep a share of the shards from those who do.
      await this.stop().catch(() => {})
      throw error
    }
  }

  /** Past half a lease without a heartbeat another relay may be about to take over: nothing more is sent. */
  get mayRun(): boolean {
    return this.#parts.clock.now() - this.#provenAt < this.#parts.leaseMs / 2
  }

  /** Somebody let a shard go. */
  sawFree(): void {
    this.#freeSeen = true
  }

  /** Whether a heartbeat saw that something is due, since this was asked last. */
  tookDue(): boolean {
    const seen = this.#dueSeen
    this.#dueSeen = false
    return seen
  }

  owns(shard: Shard): boolean {
    return this.shards.get(shard.shard) === shard
  }

  /**
   * Takes what is free up to the share, and lets go of what is above it. Called between batches only. True when shards
   * came in.
   */
  async tend(): Promise<boolean> {
    const { outbox, clock, destination, relay, leaseMs } = this.#parts
    if (this.#freeSeen && clock.now() - this.#provenAt > RELAY_BEAT_MS_MIN) {
      this.#freeSeen = false
      await this.#beat()
    }
    const over = this.shards.size - this.#share
    if (over > 0) {
      // A beat that arrived after the release would lease them for nobody.
      await this.#beating?.catch(() => {})
      const leases = [...this.shards.values()].slice(-over)
      for (const { shard } of leases) this.shards.delete(shard)
      await outbox.release({ destination, relay, leases, leaving: false })
    } else if (over < 0 && this.#free > 0) {
      this.#free = 0
      const leased = await outbox.lease({ destination, relay, leaseMs, limit: -over })
      for (const state of leased) this.shards.set(state.shard, new Shard(state))
      return leased.length > 0
    }
    return false
  }

  /** The database says that these are not ours any more. */
  drop(lost: readonly Shard[]): void {
    for (const shard of lost) if (this.owns(shard)) this.shards.delete(shard.shard)
  }

  /** Lets these go, as far as that can be told to anybody: else their lease lapses. */
  async giveBack(shards: readonly Shard[]): Promise<void> {
    const { outbox, destination, relay } = this.#parts
    this.drop(shards)
    await this.#beating?.catch(() => {})
    await outbox.release({ destination, relay, leases: shards, leaving: false }).catch(() => {})
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#beating?.catch(() => {})
    const { outbox, destination, relay } = this.#parts
    const leases = [...this.shards.values()]
    this.shards.clear()
    await outbox.release({ destination, relay, leases, leaving: true })
  }

  #beat(): Promise<void> {
    this.#beating ??= this.#beatNow().finally(() => {
      this.#beating = undefined
    })
    return this.#beating
  }

  async #beatNow(): Promise<void> {
    const { outbox, clock, destination, relay, leaseMs } = this.#parts
    const startedAt = clock.now()
    const leases = [...this.shards.values()]
    const { relays, free, ours, due } = await outbox.beat({ destination, relay, leaseMs, leases })
    this.#provenAt = startedAt
    this.#free = free
    if (due) this.#dueSeen = true
    this.#share = Math.ceil(SHARDS / relays)
    const kept = new Set(ours)
    this.drop(leases.filter(({ shard }) => !kept.has(shard)))
  }

  #arm(ms: number): void {
    this.#cancel = this.#parts.clock.after(ms, () => {
      this.#beat().then(
        () => this.#again(this.#parts.leaseMs / 3),
        (error: unknown) => {
          this.#parts.observe({ kind: 'troubled', task: 'relay', error })
          this.#again(this.#parts.leaseMs / 12)
        },
      )
    })
  }

  #again(ms: number): void {
    if (this.#stopped) return
    this.#arm(ms)
    this.#parts.tell()
  }
}
