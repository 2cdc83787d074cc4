import type { Outcome } from './outcome.ts'

/** How an operation of this process ended, for those who attached to it. */
export type Ending = { readonly kind: 'answered'; readonly outcome: Outcome } | { readonly kind: 'open' }

/**
 * One operation of this process. Hardly any has a duplicate beside it, so what others would wait for is only made when
 * somebody waits.
 */
export class InFlightOperation {
  readonly fingerprint: string
  readonly route: string
  readonly #left: () => void
  #is: 'looking' | 'running' | 'ended' = 'looking'
  #ending: Ending = { kind: 'open' }
  /** When the last look began that found the key running elsewhere. */
  #busyAt = -Infinity
  #undecided: Undecided[] | undefined
  #ended: Waiting<Ending> | undefined

  constructor(fingerprint: string, route: string, left: () => void) {
    this.fingerprint = fingerprint
    this.route = route
    this.#left = left
  }

  /**
   * Settles when the key is known to be running, here, or elsewhere ('busy') by a look that is not older than `at`, or
   * when the call ended without running it: nobody may be refused because of what was true before it came.
   */
  decided(at: number): Promise<Decided> {
    if (this.#is !== 'looking') return Promise.resolve(this.#is)
    if (this.#busyAt >= at) return Promise.resolve('busy')
    return new Promise((settle) => (this.#undecided ??= []).push({ at, settle }))
  }

  /** Settles when the operation ended; never rejects. 'open': released, or unknown: look again. */
  get ended(): Promise<Ending> {
    if (this.#is === 'ended') return Promise.resolve(this.#ending)
    return (this.#ended ??= waiting()).promise
  }

  run(): void {
    if (this.#is !== 'looking') return
    this.#is = 'running'
    this.#decide('running', Infinity)
  }

  /** The handler failed or refused: from its rollback on somebody else may have the key. */
  look(): void {
    if (this.#is === 'running') this.#is = 'looking'
  }

  /** It runs elsewhere, by a look that began at this time. */
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
 * The operations this process is running, by identity: a duplicate here takes no connection, and its refusal is exact
 * because the fingerprint is in the table.
 */
export class InFlightTable {
  readonly #running = new Map<string, InFlightOperation>()

  get(id: string): InFlightOperation | undefined {
    return this.#running.get(id)
  }

  start(id: string, fingerprint: string, route = ''): InFlightOperation {
    const running = new InFlightOperation(fingerprint, route, () => this.#running.delete(id))
    this.#running.set(id, running)
    return running
  }

  /** How many operations of each route there are. */
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
