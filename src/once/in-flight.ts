import type { Outcome } from './outcome.ts'

/** How an operation of this process ended, for those who attached to it. */
export type Ending = { readonly kind: 'answered'; readonly outcome: Outcome } | { readonly kind: 'open' }

/**
 * One operation of this process. Hardly any has a duplicate beside it, so what others would wait for is only made when
 * somebody waits.
 */
export class Running {
  readonly fingerprint: string
  readonly #left: () => void
  #is: 'looking' | 'running' | 'ended' = 'looking'
  #ending: Ending = { kind: 'open' }
  #decided: Waiting<'running' | 'ended'> | undefined
  #ended: Waiting<Ending> | undefined

  constructor(fingerprint: string, left: () => void) {
    this.fingerprint = fingerprint
    this.#left = left
  }

  /**
   * Settles when the key is known to be running, here or elsewhere, or when the call ended without running it: until
   * then it only looks at the record, and nobody may be refused because of it.
   */
  get decided(): Promise<'running' | 'ended'> {
    if (this.#is !== 'looking') return Promise.resolve(this.#is)
    return (this.#decided ??= waiting()).promise
  }

  /** Settles when the operation ended; never rejects. 'open': released, or unknown: look again. */
  get ended(): Promise<Ending> {
    if (this.#is === 'ended') return Promise.resolve(this.#ending)
    return (this.#ended ??= waiting()).promise
  }

  run(): void {
    if (this.#is !== 'looking') return
    this.#is = 'running'
    this.#decided?.settle('running')
  }

  end(ending: Ending): void {
    this.#left()
    const decided = this.#is === 'looking' ? this.#decided : undefined
    this.#is = 'ended'
    this.#ending = ending
    decided?.settle('ended')
    this.#ended?.settle(ending)
  }
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
  readonly #running = new Map<string, Running>()

  get(id: string): Running | undefined {
    return this.#running.get(id)
  }

  start(id: string, fingerprint: string): Running {
    const running = new Running(fingerprint, () => this.#running.delete(id))
    this.#running.set(id, running)
    return running
  }

  /** Resolves when everything that runs now has ended. */
  async drained(): Promise<void> {
    await Promise.all(Array.from(this.#running.values(), ({ ended }) => ended))
  }
}
