import { partsOf } from '../../store/namespaced/names.ts'
import { Attendant } from './attendant.ts'
import { DESTINATION } from './outbox-plan.ts'
import type { World } from './world.ts'

/** Resends events that outbox consumers have already received, while these consumers run. */
export class Resender extends Attendant {
  constructor(world: World) {
    super(world, { works: world.settings.weather === 'resends', roundsMax: 1 })
  }

  /** Whether a resent event waits for a consumer. */
  get hasWaiting(): boolean {
    const { settings, database } = this.world
    if (settings.weather !== 'resends') return false
    return database.held.rows(null).some(([, { destination }]) => partsOf(destination).name !== DESTINATION)
  }

  protected pause(): number {
    return this.world.dice.between(50, 600)
  }

  protected act(): Promise<unknown> {
    const { name } = this.world.dice.pick(this.world.settings.readers)
    return this.ask(({ once }) => once.resend({ destination: `consumer ${name}`, since: new Date(0) }))
  }

  /** A resend is one call, so none is left in progress. */
  protected async finish(): Promise<void> {}

  protected hasWork(): boolean {
    return false
  }

  protected async settle(): Promise<void> {}
}
