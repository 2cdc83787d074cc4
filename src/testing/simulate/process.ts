import type { Held } from '../../store/store.ts'
import type { ReleaseParams } from '../../store/outbox.ts'

export interface Ending {
  rollback(): Promise<void>
}

/** One process of the program under test. When it crashes, it loses its database for good, and `act` starts again. */
export class SimulatedProcess {
  /** Resolves when the process dies. */
  readonly crashed: Promise<'crashed'>
  readonly leases: Held[] = []
  readonly shards: Omit<ReleaseParams, 'leaving'>[] = []
  isDead = false
  readonly #open = new Set<Ending>()
  #crash: (crashed: 'crashed') => void = () => {}

  constructor() {
    this.crashed = new Promise((resolve) => {
      this.#crash = resolve
    })
  }

  opened(session: Ending): void {
    this.#open.add(session)
  }

  ended(session: Ending): void {
    this.#open.delete(session)
  }

  held(id: string, token: string | undefined): void {
    if (token !== undefined) this.leases.push({ id, token })
  }

  /** The server ends the transactions of a client that is gone. */
  async die(): Promise<void> {
    this.isDead = true
    for (const session of this.#open) await session.rollback()
    this.#open.clear()
    this.#crash('crashed')
  }
}
