import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

const PATIENCE_MS = 1_500
const LOOK_MS = 300

/**
 * Somebody who works beside the processes: while there is chaos, whatever the dice say; in the morning, when it is over,
 * until nothing is left to do.
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

  /** Something came after everybody had gone home: another morning. */
  rouse(): void {
    if (!this.done || this.isDone) return
    this.done = false
    void this.morning()
  }

  /** Before the next deed. */
  protected abstract pause(): number
  protected abstract deed(): Promise<unknown>
  /** What is under way when the chaos ends is brought to its end. */
  protected abstract finish(): Promise<void>
  protected abstract hasWork(): boolean
  /** One round of the morning. */
  protected abstract settle(): Promise<void>

  private async work(): Promise<void> {
    while (this.world.chaos) {
      await this.sleep(this.pause())
      if (this.world.chaos) await this.deed()
    }
    await this.finish()
    await this.morning()
  }

  private async morning(): Promise<void> {
    for (; this.rounds < this.roundsMax; this.rounds++) {
      while (!this.world.isDrained) await this.look()
      if (!this.hasWork()) break
      await this.settle()
    }
    this.done = true
  }

  /** On some process; it may die of it, or not answer in time. What it did, it did. */
  protected ask(
    deed: (process: SimProcess) => Promise<unknown>,
    process: SimProcess = this.world.dice.pick(this.world.processes),
  ): Promise<void> {
    const { scheduler, owner } = this.world
    return new Promise((resolve) => {
      const go = (): void => scheduler.post(owner, resolve)
      scheduler.after(owner, PATIENCE_MS, resolve)
      scheduler.post(process, () => void deed(process).then(go, go))
    })
  }

  /** Until it is time to look again. */
  protected look(): Promise<void> {
    return this.sleep(LOOK_MS)
  }

  private sleep(ms: number): Promise<void> {
    return this.world.scheduler.sleep(this.world.owner, ms)
  }
}
