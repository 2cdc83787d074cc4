import type { Outcome } from './outcome.ts'

/** How an operation of this process ended, for those who attached to it. */
export type Ending = { readonly kind: 'answered'; readonly outcome: Outcome } | { readonly kind: 'open' }

export interface Running {
  readonly fingerprint: string
  /**
   * Settles when the key is known to be running, here or elsewhere, or when the call ended without running it: until
   * then it only looks at the record, and nobody may be refused because of it.
   */
  readonly decided: Promise<'running' | 'ended'>
  /** Settles when the operation ended; never rejects. 'open': released, or unknown: look again. */
  readonly ended: Promise<Ending>
  run(): void
  end(ending: Ending): void
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
    let decide: (what: 'running' | 'ended') => void = () => {}
    let settle: (ending: Ending) => void = () => {}
    const decided = new Promise<'running' | 'ended'>((resolve) => (decide = resolve))
    const ended = new Promise<Ending>((resolve) => (settle = resolve))
    const running: Running = {
      fingerprint,
      decided,
      ended,
      run: () => decide('running'),
      end: (ending) => {
        this.#running.delete(id)
        decide('ended')
        settle(ending)
      },
    }
    this.#running.set(id, running)
    return running
  }

  /** Resolves when everything that runs now has ended. */
  async drained(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }
}
