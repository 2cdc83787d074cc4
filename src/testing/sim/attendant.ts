import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

const PATIENCE_MS = 1_500
const LOOK_MS = 300

/**
 * An actor that works beside the processes. During the chaos phase it acts at random. In the final phase, without
 * faults, it works until nothing is left to do.
 */
export abstract class Attendant {
  protected readonly world: World
  private readonly roundsMax: number
  private done: boolean
  private rounds = 0

  constructor(world: World, { works, roundsMax }: { works: boolean; roundsMax: number }) {
    this.world = world
    this.roundsMax = roundsMax
    this.done = !works
  }

  get isDone(): boolean {
    return this.done && (this.rounds >= this.roundsMax || !this.hasWork())
  }

  start(): void {
    if (!this.done) void this.work()
  }

  /** Starts another final phase, because work arrived after this actor had finished. */
  workAgain(): void {
    if (!this.done || this.isDone) return
    this.done = false
    void this.settleAll()
  }

  /** The pause before the next action, in milliseconds. */
  protected abstract pause(): number
  protected abstract act(): Promise<unknown>
  /** Completes the work that is in progress when the chaos phase ends. */
  protected abstract finish(): Promise<void>
  protected abstract hasWork(): boolean
  /** Runs one round of the final phase. */
  protected abstract settle(): Promise<void>

  private async work(): Promise<void> {
    while (this.world.chaos) {
      await this.sleep(this.pause())
      if (this.world.chaos) await this.act()
    }
    await this.finish()
    await this.settleAll()
  }

  private async settleAll(): Promise<void> {
    for (; this.rounds < this.roundsMax; this.rounds++) {
      while (!this.world.isDrained) await this.look()
      if (!this.hasWork()) break
      await this.settle()
    }
    this.done = true
  }

  /**
   * Runs the action on any process. The process may die during the action, or not answer in time. The effects of the
   * action stay.
   */
  protected ask(
    action: (process: SimProcess) => Promise<unknown>,
    process: SimProcess = this.world.dice.pick(this.world.processes),
  ): Promise<void> {
    const { scheduler, owner } = this.world
    return new Promise((resolve) => {
      const go = (): void => scheduler.post(owner, resolve)
      scheduler.after(owner, PATIENCE_MS, resolve)
      scheduler.post(process, () => void action(process).then(go, go))
    })
  }

  /** Waits until the next look at the world. */
  protected look(): Promise<void> {
    return this.sleep(LOOK_MS)
  }

  private sleep(ms: number): Promise<void> {
    return this.world.scheduler.sleep(this.world.owner, ms)
  }
}
