import type { WakeableRelay } from '../../outbox/relay.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

/** A relay is stopped and started again this often, instead of paused. */
const STOPS_SHARE = 0.2

/** Pauses and resumes relays and consumers, and restarts relays. When the chaos phase ends, everything is resumed. */
export class Pauser {
  private readonly world: World

  constructor(world: World) {
    this.world = world
  }

  start(): void {
    const { world } = this
    if (world.settings.weather !== 'pauses' || !world.chaos) return
    world.scheduler.after(world.owner, world.dice.between(5, 120), () => {
      this.turn()
      this.start()
    })
  }

  resumeAll(): void {
    for (const process of this.world.processes) {
      for (const worker of process.workers()) if (worker.paused) this.set(process, worker, false)
    }
  }

  /** Pauses or resumes one relay or consumer, sometimes twice. */
  private turn(): void {
    const { dice, processes, chaos } = this.world
    const process = dice.pick(processes)
    const worker = dice.pick(process.workers())
    const paused = dice.chance(0.8) ? !worker.paused : worker.paused
    const stops = worker === process.relay && dice.chance(STOPS_SHARE)
    if (!chaos || !process.alive || process.paused) return
    if (stops) void this.restart(process)
    else this.set(process, worker, paused)
  }

  private set(process: SimProcess, worker: ReturnType<SimProcess['workers']>[number], paused: boolean): void {
    if (worker === process.relay) this.world.note({ kind: 'pausing', process: process.name, paused })
    if (paused) worker.pause()
    else worker.resume()
  }

  /** As in a deployment, but the process lives on. */
  private async restart(process: SimProcess): Promise<void> {
    const relay = process.relay as WakeableRelay
    // Its start is not over yet. It would not notice a stop.
    if (relay.underWay === 0) return
    const note = (stopped: boolean): void => this.world.note({ kind: 'stopping', process: process.name, stopped })
    const stopped = relay.stop()
    note(true)
    await stopped
    note(false)
    await process.start(relay)
  }
}
