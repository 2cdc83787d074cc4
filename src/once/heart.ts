import type { Clock } from '../platform/clock.ts'
import type { Observe } from '../observe/signal.ts'
import type { Held, Leases } from '../store/store.ts'

interface Lease extends Held {
  readonly leaseMs: number
  readonly onLost: () => void
}

/** The leases of one length. */
interface Group {
  readonly held: Map<string, Lease>
  /** The last beat; settled when none is under way. Never rejects. */
  beat: Promise<void>
  cancel: () => void
}

/**
 * Keeps the leases of this process alive: one statement per lease length every third of it, on a connection of its own.
 * A lease that is no longer ours is told so at once; the fence in the database would stop it in any case.
 */
export class Heart {
  readonly #leases: Leases<unknown>
  readonly #clock: Clock
  readonly #observe: Observe
  readonly #groups = new Map<number, Group>()

  constructor(leases: Leases<unknown>, clock: Clock, observe: Observe) {
    this.#leases = leases
    this.#clock = clock
    this.#observe = observe
  }

  /**
   * Returns how to stop. Stopping waits for the beat under way: one that arrived after a release would give the lease
   * back to a holder that has let go of it.
   */
  hold(lease: Lease): () => Promise<void> {
    const group = this.#groups.get(lease.leaseMs) ?? this.#start(lease.leaseMs)
    group.held.set(lease.id, lease)
    return () => {
      if (group.held.get(lease.id) === lease) group.held.delete(lease.id)
      if (group.held.size === 0 && this.#groups.get(lease.leaseMs) === group) {
        group.cancel()
        this.#groups.delete(lease.leaseMs)
      }
      return group.beat
    }
  }

  stop(): void {
    for (const group of this.#groups.values()) group.cancel()
    this.#groups.clear()
  }

  #start(leaseMs: number): Group {
    const group: Group = { held: new Map(), beat: Promise.resolve(), cancel: () => {} }
    const next = (): void => {
      group.cancel = this.#clock.after(leaseMs / 3, () => {
        group.beat = this.#beat(group.held, leaseMs).then(() => {
          if (this.#groups.get(leaseMs) === group) next()
        })
      })
    }
    this.#groups.set(leaseMs, group)
    next()
    return group
  }

  async #beat(held: Map<string, Lease>, leaseMs: number): Promise<void> {
    const leases = [...held.values()]
    try {
      const ours = new Set(
        await this.#leases.heartbeat({ leases: leases.map(({ id, token }) => ({ id, token })), leaseMs }),
      )
      for (const lease of leases) {
        if (ours.has(lease.id) || held.get(lease.id) !== lease) continue
        held.delete(lease.id)
        lease.onLost()
      }
    } catch (error) {
      // The token decides at the commit, not the clock: a missed beat is tried again, not given up.
      this.#observe({ kind: 'troubled', task: 'heartbeat', error })
    }
  }
}
