import type { Cancellation } from '../../store/cancellation.ts'
import { notBeforeOf } from '../../store/memory/statements/delayed.ts'
import { Attendant } from './attendant.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

const AGAIN = 0.2
const NEAR_MICROS = 80_000
const UNDONE = new Error('the work around it failed')

/** Cancels delayed events around their due time, directly or in a transaction that takes a while and may fail. */
export class Canceller extends Attendant {
  constructor(world: World) {
    super(world, { works: world.settings.weather === 'cancels', roundsMax: 1 })
  }

  protected pause(): number {
    return this.world.dice.between(1, 40)
  }

  protected async act(): Promise<void> {
    const { dice } = this.world
    const ids = this.ids()
    if (ids.length > 0) await this.ask((process) => this.cancel(process, dice.pick(ids)))
  }

  /** A cancellation is one call, so none is left in progress. */
  protected async finish(): Promise<void> {}

  protected hasWork(): boolean {
    return false
  }

  protected async settle(): Promise<void> {}

  /** Mostly the ids of events that can be cancelled, or could until recently. Each id may be chosen several times. */
  private ids(): string[] {
    const { dice, database } = this.world
    const rows = database.delayed.rows(null)
    const now = database.now()
    const near = rows.filter(([, row]) => Math.abs((notBeforeOf(row) ?? 0) - now) < NEAR_MICROS)
    return (near.length > 0 && dice.chance(0.9) ? near : rows).map(([id]) => id)
  }

  private async cancel(process: SimProcess, id: string): Promise<void> {
    const { dice, outbox, settings } = this.world
    const answer = dice.chance(0.5) ? await process.once.cancel(id) : await this.joined(process, id)
    this.world.note({ kind: 'cancel', event: outbox.nameOfId(id), answer })
    if (answer !== 'due' || !this.world.chaos || !dice.chance(AGAIN)) return
    // Another server takes over, and its clock is behind.
    this.world.happened('databaseClockBack', 'cancel')
    this.world.databaseOffset -= dice.between(1, settings.leaseMs)
    await this.cancel(process, id)
  }

  private joined(process: SimProcess, id: string): Promise<Cancellation> {
    const { dice } = this.world
    return process.store.transaction(
      async (tx) => {
        const answer = await process.once.join(tx).cancel(id)
        await process.sleep(dice.between(1, 100))
        if (dice.chance(0.3)) throw UNDONE
        return answer
      },
      { deadlineMs: this.world.settings.deadlineMs },
    )
  }
}
