import { onceError } from '../errors.ts'
import { HEARTBEAT_MS_MIN, HEARTBEAT_SLACK_MS } from '../limits.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import type { Observe } from '../observe/signal.ts'
import type { Held, Leases } from '../store/store.ts'

interface Lease extends Held {
  readonly leaseMs: number
  /** When the lease began, on this machine's clock. Default: now */
  readonly since?: number
  /** The database says that another attempt holds the lease. */
  readonly onLost: () => void
  /** The lease could not be renewed in time: another attempt may hold it. */
  readonly onLapsed?: () => void
}

interface Kept extends Lease {
  /** When the last confirmed renewal ends, on this machine's clock. */
  until: number
}

/** The leases of one length. */
interface Group {
  readonly held: Map<string, Kept>
  /** The last beat. False: it may still reach the database. Never rejects. */
  beat: Promise<boolean>
  cancel: () => void
  unwatch: () => void
}

/**
 * Keeps the leases of this process alive. Every third of a lease, one statement renews all leases of that length, on a
 * separate connection. A holder that lost its lease learns it at once. The fence in the database would stop it in any
 * case.
 */
export class LeaseHeartbeat {
  readonly #leases: Leases
  readonly #clock: Clock
  readonly #observe: Observe
  readonly #groups = new Map<number, Group>()

  constructor(leases: Leases, clock: Clock, observe: Observe) {
    this.#leases = leases
    this.#clock = clock
    this.#observe = observe
  }

  /**
   * Returns a function that stops. Stopping waits for the running beat, because a beat that arrives after a release
   * would renew a released lease. False: that may still happen, so the lease must lapse by itself.
   */
  hold(lease: Lease): () => Promise<boolean> {
    const group = this.#groups.get(lease.leaseMs) ?? this.#start(lease.leaseMs)
    const kept: Kept = { ...lease, until: (lease.since ?? this.#clock.now()) + lease.leaseMs }
    group.held.set(lease.id, kept)
    return () => {
      if (group.held.get(lease.id) === kept) group.held.delete(lease.id)
      if (group.held.size === 0 && this.#groups.get(lease.leaseMs) === group) {
        group.cancel()
        group.unwatch()
        this.#groups.delete(lease.leaseMs)
      }
      return group.beat
    }
  }

  /** Stops renewing all leases, and tells the holders that still work. */
  stop(): void {
    for (const { cancel, unwatch, held } of this.#groups.values()) {
      cancel()
      unwatch()
      for (const lease of held.values()) lease.onLapsed?.()
    }
    this.#groups.clear()
  }

  /** Whether a lease may have lapsed, so that another attempt may hold it. */
  isOver({ id, token, leaseMs }: Held & { readonly leaseMs: number }): boolean {
    const kept = this.#groups.get(leaseMs)?.held.get(id)
    return kept?.token !== token || kept.until <= this.#clock.now()
  }

  #start(leaseMs: number): Group {
    const group: Group = { held: new Map(), beat: Promise.resolve(true), cancel: () => {}, unwatch: () => {} }
    const next = (): void => {
      group.cancel = this.#clock.after(leaseMs / 3, () => {
        group.beat = this.#beat(group, leaseMs).then((quiet) => {
          if (this.#groups.get(leaseMs) === group) next()
          return quiet
        })
      })
    }
    this.#groups.set(leaseMs, group)
    next()
    return group
  }

  async #beat(group: Group, leaseMs: number): Promise<boolean> {
    const { held } = group
    const leases = [...held.values()]
    if (leases.length === 0) return true
    const sentAt = this.#clock.now()
    this.#watch(group)
    const withinMs = Math.max(leaseMs / 3, HEARTBEAT_MS_MIN)
    const late = new AbortController()
    let unanswered = false
    const unsure = new Map<string, unknown>()
    try {
      const answered = await Promise.race([
        this.#leases.heartbeat({
          leases: leases.map(({ id, token }) => ({ id, token })),
          leaseMs,
          withinMs,
          unsure: (id, error) => unsure.set(id, error),
        }),
        sleep(this.#clock, withinMs + HEARTBEAT_SLACK_MS, late.signal),
      ])
      unanswered = !answered
      if (!answered) throw onceError('ONCE_STORE_UNAVAILABLE', { detail: `no answer to a heartbeat in ${withinMs} ms` })
      const ours = new Set(answered)
      for (const lease of leases) {
        if (held.get(lease.id) !== lease || unsure.has(lease.id)) continue
        if (ours.has(lease.id)) {
          lease.until = sentAt + leaseMs
          continue
        }
        held.delete(lease.id)
        lease.onLost()
      }
      group.unwatch()
      if (unsure.size === 0) return true
      // Another server holds the other leases, and has renewed them.
      this.#watch(group)
      this.#observe({ kind: 'troubled', task: 'heartbeat', error: [...unsure.values()][0] })
      return false
    } catch (error) {
      // The token decides at the commit, not the clock, so a missed beat is tried again. The watch goes on, because a
      // beat that fails at once renews nothing, either.
      this.#observe({ kind: 'troubled', task: 'heartbeat', error })
      return !unanswered
    } finally {
      late.abort()
    }
  }

  /**
   * While a beat has no answer, leases end by this machine's clock, because a handler must know before it makes an
   * outside call. A timer may fire early, and other leases end later, so the timer is set again until every holder
   * knows.
   */
  #watch(group: Group, toldAt = -Infinity): void {
    group.unwatch()
    const untold = Array.from(group.held.values()).filter(({ until }) => until > toldAt)
    if (untold.length === 0) return
    const next = Math.min(...untold.map(({ until }) => until))
    group.unwatch = this.#clock.after(Math.max(1, next - this.#clock.now()), () => {
      const now = this.#clock.now()
      for (const lease of untold) if (lease.until <= now && group.held.get(lease.id) === lease) lease.onLapsed?.()
      this.#watch(group, now)
    })
  }
}
