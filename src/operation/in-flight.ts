import { LiveStreams } from '../stream/live-streams.ts'
import type { Outcome } from './outcome.ts'

/** How an operation of this process ended, for the duplicates that attached to it. */
export type Ending = { readonly kind: 'answered'; readonly outcome: Outcome } | { readonly kind: 'open' }

/**
 * One operation of this process. Few operations have a concurrent duplicate, so the promises are created only when a
 * duplicate waits.
 */
export class InFlightOperation {
  readonly fingerprint: string
  readonly route: string
  readonly #left: () => void
  #is: 'looking' | 'running' | 'ended' = 'looking'
  #ending: Ending = { kind: 'open' }
  /** When the last check began that found the key running elsewhere. */
  #busyAt = -Infinity
  #undecided: Undecided[] | undefined
  #ended: Waiting<Ending> | undefined

  constructor(fingerprint: string, route: string, left: () => void) {
    this.fingerprint = fingerprint
    this.route = route
    this.#left = left
  }

  /**
   * Settles when the key is known to be running: here, or elsewhere ('busy') by a check that began at `at` or later. It
   * also settles when the call ended without running. A request must not be refused because of a state from before it
   * came.
   */
  decided(at: number): Promise<Decided> {
    if (this.#is !== 'looking') return Promise.resolve(this.#is)
    if (this.#busyAt >= at) return Promise.resolve('busy')
    return new Promise((settle) => (this.#undecided ??= []).push({ at, settle }))
  }

  /** Settles when the operation ended. Never rejects. 'open': the key was released or is unknown, so look again. */
  get ended(): Promise<Ending> {
    if (this.#is === 'ended') return Promise.resolve(this.#ending)
    return (this.#ended ??= waiting()).promise
  }

  run(): void {
    if (this.#is !== 'looking') return
    this.#is = 'running'
    this.#decide('running', Infinity)
  }

  /** The handler failed or refused. After its rollback another call may have the key. */
  look(): void {
    if (this.#is === 'running') this.#is = 'looking'
  }

  /** The key runs elsewhere, according to a check that began at this time. */
  busy(lookedAt: number): void {
    this.#busyAt = lookedAt
    this.#decide('busy', lookedAt)
  }

  end(ending: Ending): void {
    this.#left()
    this.#is = 'ended'
    this.#ending = ending
    this.#decide('ended', Infinity)
    this.#ended?.settle(ending)
  }

  #decide(as: Decided, upTo: number): void {
    const undecided = this.#undecided
    if (!undecided) return
    this.#undecided = undecided.filter(({ at }) => at > upTo)
    for (const { at, settle } of undecided) if (at <= upTo) settle(as)
  }
}

type Decided = 'running' | 'busy' | 'ended'

interface Undecided {
  /** When the call came. */
  readonly at: number
  settle(as: Decided): void
}

interface Waiting<T> {
  readonly promise: Promise<T>
  settle(value: T): void
}

function waiting<T>(): Waiting<T> {
  let settle: (value: T) => void = () => {}
  const promise = new Promise<T>((resolve) => (settle = resolve))
  return { promise, settle }
}

/**
 * The operations that this process is running, by identity. A duplicate in this process takes no connection, and its
 * refusal is exact because the table has the fingerprint.
 */
export class InFlightTable {
  /** The streams that these operations produce. */
  readonly streams: LiveStreams = new LiveStreams()
  readonly #running = new Map<string, InFlightOperation>()

  get(id: string): InFlightOperation | undefined {
    return this.#running.get(id)
  }

  start(id: string, fingerprint: string, route = ''): InFlightOperation {
    const running = new InFlightOperation(fingerprint, route, () => this.#running.delete(id))
    this.#running.set(id, running)
    return running
  }

  /** The number of running operations of each route. */
  routes(): ReadonlyMap<string, number> {
    const routes = new Map<string, number>()
    for (const { route } of this.#running.values()) routes.set(route, (routes.get(route) ?? 0) + 1)
    return routes
  }

  /** Resolves when everything that runs now has ended. */
  async drained(): Promise<void> {
    await Promise.all(Array.from(this.#running.values(), ({ ended }) => ended))
  }
}
