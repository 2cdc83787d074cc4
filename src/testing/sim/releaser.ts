import { Attendant } from './attendant.ts'
import { DESTINATION } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import { SERVICES } from './service.ts'
import type { World } from './world.ts'

const BY = { by: 'ada', why: 'the receiver is mended' }

/**
 * Releases and skips parked events from any process while relays run. In the final phase it skips the first event of
 * every line until nothing is parked. The events behind it must then be sent.
 */
export class Releaser extends Attendant {
  constructor(world: World) {
    super(world, { works: world.settings.releases, roundsMax: 30 })
  }

  protected pause(): number {
    return this.world.dice.between(5, 200)
  }

  protected act(): Promise<unknown> {
    return this.ask((process) => this.settleSome(process))
  }

  /** A release is one call, so none is left in progress. */
  protected async finish(): Promise<void> {}

  protected hasWork(): boolean {
    const { settings, database } = this.world
    return settings.releases && database.held.rows(null).some(([, { state }]) => state === 'parked')
  }

  protected async settle(): Promise<void> {
    for (const service of SERVICES.keys()) {
      const [process] = this.world.processes.filter((of) => of.service === service && of.alive)
      if (process !== undefined)
        await this.ask(({ once: { parked } }) => parked.skip({ destination: DESTINATION, ...BY }), process)
    }
  }

  private async settleSome({ once: { parked } }: SimProcess): Promise<unknown> {
    const { dice } = this.world
    const options = { destination: DESTINATION, ...BY }
    const roll = dice.next()
    if (roll < 0.3) return parked.release(options)
    const events = await parked.list({ destination: DESTINATION, limit: 20 })
    if (events.length === 0) return undefined
    const { id, aggregate } = dice.pick(events)
    if (roll < 0.5) return parked.release({ ...options, aggregate })
    if (roll < 0.7) return parked.release({ ...options, id })
    // The skipped event may be in the middle of a line.
    return roll < 0.9 ? parked.skip({ ...options, id }) : parked.skip({ ...options, aggregate })
  }

  /** Whether an event is parked without a parked head. The relay puts such events back in line by itself. */
  get hasOrphans(): boolean {
    const { settings, database, outbox } = this.world
    if (!settings.releases) return false
    const parked = database.held.rows(null).flatMap(([, row]) => (row.state === 'parked' ? [row] : []))
    return parked.some(
      (of) =>
        of.reason === null &&
        !outbox.hasArrived(of.seq) &&
        !parked.some(
          (head) =>
            head.reason !== null &&
            head.seq < of.seq &&
            head.destination === of.destination &&
            head.aggregateId === of.aggregateId,
        ),
    )
  }
}
