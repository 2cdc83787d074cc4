import { recover } from './clients.ts'
import type { World } from './world.ts'

const EVERY_MS = 12

/** Faults that belong to no statement: clock jumps, outages, sweeps and dropped answers. They occur at random times. */
export class Mischief {
  private readonly world: World

  constructor(world: World) {
    this.world = world
  }

  start(): void {
    const { world } = this
    world.scheduler.after(world.owner, EVERY_MS * (0.5 + world.dice.next()), () => {
      if (!world.chaos) return
      this.clocks()
      this.store()
      this.start()
    })
  }

  private clocks(): void {
    const { world } = this
    const { dice, settings, processes } = world
    if (world.hit('clockForward', 'process')) dice.pick(processes).jump(dice.between(1, settings.replayForMs))
    if (world.hit('clockBack', 'process')) dice.pick(processes).jump(-dice.between(1, settings.leaseMs))
    if (world.hit('databaseClockForward', 'database')) world.databaseOffset += dice.between(1, settings.leaseMs * 2)
    if (world.hit('databaseClockBack', 'database')) world.databaseOffset -= dice.between(1, settings.leaseMs)
  }

  private store(): void {
    const { world } = this
    if (world.hit('storeOutage', 'store')) {
      world.outage = true
      world.scheduler.after(world.owner, world.dice.between(5, 60), () => {
        world.outage = false
      })
    }
    if (world.settings.relay !== null && world.hit('brokerDown', 'broker')) {
      const broker = world.dice.pick(world.brokers)
      broker.down = true
      world.scheduler.after(world.owner, world.dice.between(5, 400), () => {
        broker.down = false
      })
    }
    if (world.settings.consumer !== null && world.hit('rebalance', 'queue'))
      for (const queue of world.queues) queue.rebalance()
    if (world.hit('sweeperAtWorst', 'sweep')) this.sweep()
    if (world.hit('answerDropped', 'answer')) this.drop()
  }

  private sweep(): void {
    const { world } = this
    const process = world.dice.pick(world.processes)
    world.scheduler.post(process, () => {
      const chore = world.dice.chance(0.7)
        ? process.once.sweep({ limit: 1 + world.dice.below(5) })
        : recover(world, process)
      chore.catch(() => undefined)
    })
  }

  /** Deletes a live answer and keeps its record, as a restore or an operator might. */
  private drop(): void {
    const { database } = this.world
    const tx = database.begin({ interactive: false })
    const [first] = database.answers.rows(tx)
    if (first !== undefined && !database.answers.locked(first[0], tx, 'update'))
      database.answers.put(first[0], undefined, tx)
    tx.commit()
  }
}
