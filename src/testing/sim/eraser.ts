import { Attendant } from './attendant.ts'
import type { World } from './world.ts'

/** Erases single operations, or all operations of their scope, while clients retry them. */
export class Eraser extends Attendant {
  constructor(world: World) {
    super(world, { works: world.settings.weather === 'erasures', roundsMax: 1 })
  }

  protected pause(): number {
    return this.world.dice.between(20, 300)
  }

  protected act(): Promise<unknown> {
    const { dice, plans } = this.world
    const { address, service } = dice.pick(plans)
    const { scope, key } = address
    const options = { scope, ...(dice.chance(0.7) ? { key } : {}) }
    return this.ask(async ({ name, once }) => {
      await once.erase(options)
      this.world.note({ kind: 'erased', process: name })
    }, this.world.anyOf(service))
  }

  /** A cut-off erasure is not finished: a later one would erase the rest. */
  protected async finish(): Promise<void> {}

  protected hasWork(): boolean {
    return false
  }

  protected async settle(): Promise<void> {}
}
