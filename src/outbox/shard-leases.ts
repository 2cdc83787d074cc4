import { RELAY_BEAT_MS_MIN, SHARDS } from '../limits.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { DatabaseIdentity } from '../store/database-identity.ts'
import type { Outbox, ShardLease } from '../store/outbox.ts'
import { REWOUND_WHY } from '../store/rewound.ts'
import { Shard } from './shard.ts'

export interface ShardLeasesParts {
  readonly outbox: Outbox
  readonly clock: Clock
  readonly observe: Observe
  readonly destination: string
  readonly relay: string
  /** The owner of the relay, for the audit. */
  readonly source: string
  readonly leaseMs: number
  /** Called when something changed and the loop should look. */
  readonly tell: () => void
  /** When the loop began to wait for the database. Null: the loop does not wait for it. */
  readonly asksSince: () => number | null
}

/** Keeps this relay's fair share of the shards leased. All live relays share 64 shards. */
export class ShardLeases {
  readonly shards: Map<number, Shard> = new Map()
  readonly #parts: ShardLeasesParts
  #share = 0
  #aside: Shard | 'withoutShard' | undefined
  #others = false
  #free = 0
  /** Shards that were dropped here. The database may still hold their leases for this relay. */
  #lost: Shard[] = []
  #freeSeen = false
  #dueSeen = false
  #leasesAgain = false
  #provenAt = -Infinity
  #beating: Promise<void> | undefined
  #stopped = false
  #still = false
  #identity: DatabaseIdentity | undefined
  #cancel: () => void = () => {}

  constructor(parts: ShardLeasesParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    await this.#parts.outbox.open({ destination: this.#parts.destination })
    this.#identity = await this.#parts.outbox.identity?.()
    await this.#beat()
    this.#arm(this.#parts.leaseMs / 3)
    try {
      await this.tend()
    } catch (error) {
      // This relay does not run. Its heartbeats would keep a share of the shards from relays that do.
      await this.stop().catch(() => {})
      throw error
    }
  }

  /** False after half a lease without a heartbeat. Nothing more is sent then, because another relay may take over soon. */
  get mayRun(): boolean {
    return this.#parts.clock.now() - this.#provenAt < this.#parts.leaseMs / 2
  }

  /** A read saw that a shard is free. */
  sawFree(): void {
    this.#freeSeen = true
  }

  /** Free shards of the last heartbeat do not count. If a read sees one, the next heartbeat counts them again. */
  forgetFree(): void {
    this.#free = 0
  }

  /** Whether a heartbeat saw a due event since the last call. */
  tookDue(): boolean {
    const seen = this.#dueSeen
    this.#dueSeen = false
    return seen
  }

  /**
   * Shards were given up, because the database went back or another server answers. They are leased again soon. Or a
   * read saw free shards that the last heartbeat did not see.
   */
  get isChanging(): boolean {
    return this.#lost.length > 0 || this.#leasesAgain || (this.#freeSeen && this.#free === 0)
  }

  owns(shard: Shard): boolean {
    return this.shards.get(shard.shard) === shard
  }

  /**
   * Leases free shards up to the share, and releases shards above it. `ready` says which shards can go at once. The
   * others are marked as leaving, and go later. Returns true if it leased shards.
   */
  async tend(ready: (shard: Shard) => boolean = () => true): Promise<boolean> {
    const { outbox, clock, destination, relay, leaseMs } = this.#parts
    if (this.#lost.length > 0) await this.#releaseLost()
    if (this.#freeSeen && clock.now() - this.#provenAt > RELAY_BEAT_MS_MIN) {
      this.#freeSeen = false
      await this.#beat()
    }
    const staying = [...this.shards.values()].filter((shard) => !shard.leaving)
    const over = staying.length - this.#share
    if (over > 0) for (const shard of staying.filter((of) => of !== this.#aside).slice(-over)) shard.leaving = true
    const leases = [...this.shards.values()].filter((shard) => shard.leaving && ready(shard))
    if (leases.length > 0) {
      // A heartbeat that arrived after the release would lease them again, with no owner.
      await this.#beating?.catch(() => {})
      for (const { shard } of leases) this.shards.delete(shard)
      await outbox.release({ destination, relay, leases, leaving: false })
    }
    if (!this.#freeSeen) this.#leasesAgain = false
    if (over < 0 && this.#free > 0) {
      this.#free = 0
      const leased = await outbox.lease({ destination, relay, leaseMs, limit: -over })
      const timeline = this.#identity?.timeline ?? ''
      for (const state of leased) this.shards.set(state.shard, new Shard(state, timeline))
      return leased.length > 0
    }
    return false
  }

  /**
   * This relay cannot send, so the other relays share all shards but this one. With this shard the relay notices when
   * it can send again. Undefined: it can. 'withoutShard': the relay notices in another way, and leaves every shard.
   */
  stepAside(keeping: Shard | 'withoutShard' | undefined): void {
    if (this.#aside === keeping) return
    this.#aside = keeping
    this.#freeSeen = true
  }

  /** Whether another relay of this destination is alive. */
  get hasOthers(): boolean {
    return this.#others
  }

  get isAside(): boolean {
    return this.#aside !== undefined
  }

  /** Drops shards that the database gave to another relay, or whose acknowledged events it does not know. */
  drop(lost: readonly Shard[]): void {
    for (const shard of lost.filter((of) => this.owns(of))) {
      this.shards.delete(shard.shard)
      this.#lost.push(shard)
    }
  }

  /**
   * Releases dropped shards that the database still holds for this relay, or whose lease it has lost. That happens only
   * if the database went back to an earlier state. The shards are then leased again from the database's position.
   */
  async #releaseLost(): Promise<void> {
    const { outbox, observe, destination, relay, source } = this.#parts
    const leases = [...this.#lost]
    await this.#beating?.catch(() => {})
    const rewound = { by: source, destination }
    const released = await outbox.release({ destination, relay, leases, leaving: false, rewound })
    this.#lost = this.#lost.filter((shard) => !leases.includes(shard))
    if (released === 0) return
    this.#leaseAgain()
    const what = `the database has gone back, and lost acknowledgements of ${released} shards`
    const reason = `${REWOUND_WHY}; the relay sends those events again`
    observe({ kind: 'troubled', task: 'relay', error: new Error(`${destination}: ${what}: ${reason}`) })
  }

  #leaseAgain(): void {
    this.#freeSeen = true
    this.#leasesAgain = true
  }

  /** Releases these shards. If the database cannot be reached, their leases lapse. */
  async giveBack(shards: readonly Shard[]): Promise<void> {
    const { outbox, destination, relay } = this.#parts
    for (const shard of shards) if (this.owns(shard)) this.shards.delete(shard.shard)
    await this.#beating?.catch(() => {})
    await outbox.release({ destination, relay, leases: shards, leaving: false }).catch(() => {})
  }

  /** The server that leased the shards. Undefined: it is always the same one. */
  get server(): string | undefined {
    return this.#identity?.server
  }

  /**
   * Finds out which server answers now, and works with that one. If it was promoted or restored, every shard is leased
   * again: its consumers may have lost events that were sent before.
   */
  async followServer(): Promise<'same' | 'restarted' | 'promoted'> {
    const before = this.#identity
    const identity = await this.#parts.outbox.identity?.()
    if (!before || !identity || before.server === identity.server) return 'same'
    const isPromoted = before.timeline !== identity.timeline
    if (isPromoted) {
      // This comes first, because it finds the shards whose state the database has lost.
      await this.prove()
      await this.giveBack([...this.shards.values()])
      this.#leaseAgain()
    }
    this.#identity = identity
    return isPromoted ? 'promoted' : 'restarted'
  }

  /**
   * Writes to the server that leased the shards. Another server, or one that was restarted, must not accept the write:
   * it may have lost effects, and its consumers must get the events again. Returns the shards that this relay still
   * holds.
   */
  async told(
    of: readonly Pick<ShardLease, 'shard'>[],
    tell: (server: string | undefined) => Promise<{ readonly ours: readonly number[] }>,
  ): Promise<ReadonlySet<number>> {
    const ours = new Set((await tell(this.server)).ours)
    const isRefused = of.some(({ shard }) => !ours.has(shard))
    if (isRefused && (await this.followServer()) === 'restarted') {
      await this.giveBack([...this.shards.values()])
      this.#leaseAgain()
    }
    return ours
  }

  /** Asks which shards are still ours, because another server answers now and may know less. */
  async prove(): Promise<void> {
    await this.#beating?.catch(() => {})
    await this.#beat()
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
    const presentMs = this.#aside ? 0 : leaseMs
    const { relays, free, ours, due } = await outbox.beat({ destination, relay, leaseMs, presentMs, leases })
    this.#provenAt = startedAt
    this.#free = free
    this.#others = relays > 1
    if (due) this.#dueSeen = true
    const whileAside = this.#aside === 'withoutShard' ? 0 : 1
    this.#share = this.#aside && relays > 1 ? whileAside : Math.ceil(SHARDS / relays)
    const kept = new Set(ours)
    this.drop(leases.filter(({ shard }) => !kept.has(shard)))
    if (kept.size > 0 || (leases.length === 0 && free > 0)) return
    // This relay holds no shard, because it lost all at once, or because none is free. Either other relays hold the
    // shards, or the destination was removed, or a promoted server does not know it. So it is registered again.
    await outbox.open({ destination })
    if (leases.length > 0) this.#freeSeen = true
  }

  /**
   * Whether the loop waits for a statement that may never be answered, as on a connection that a firewall dropped. The
   * relay then stops its heartbeats, so that others take its shards. Otherwise their events would not be sent.
   */
  #standsStill(): boolean {
    const { asksSince, clock, leaseMs, observe, destination } = this.#parts
    const waitedMs = clock.now() - (asksSince() ?? Infinity)
    const before = this.#still
    this.#still = waitedMs > leaseMs / 2
    if (this.#still && !before) {
      const what = `the database has not answered for ${Math.round(waitedMs)} ms, so the relay lets its shard leases lapse`
      observe({ kind: 'troubled', task: 'relay', error: new Error(`${destination}: ${what}`) })
    }
    return this.#still
  }

  #arm(ms: number): void {
    this.#cancel = this.#parts.clock.after(ms, () => {
      if (this.#standsStill()) return this.#again(this.#parts.leaseMs / 12)
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
