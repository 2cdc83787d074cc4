import type { Redrive, RedriveStatus } from '../../dead-letter/redrive/types.ts'
import type { SimProcess } from './process.ts'
import type { Reader } from './readers.ts'
import type { World } from './world.ts'

const PATIENCE_MS = 1_500
const LOOK_MS = 300
const ROUNDS_MAX = 10
const BY = { by: 'ada', why: 'it is 2 am' }
const MORNING = { by: 'bob', why: 'the handlers are mended' }

/**
 * Somebody who redrives dead letters, pauses, resumes, aborts, and discards some, from whatever process; in the morning
 * everything that is still parked is redriven once more, and nothing is left half done.
 */
export class Operator {
  private readonly world: World
  private deeds = 0
  private resumed = 0
  private done: boolean
  private rounds = 0

  constructor(world: World) {
    this.world = world
    this.done = !world.settings.redrives
  }

  get isDone(): boolean {
    return this.done && (this.rounds >= ROUNDS_MAX || this.untried() === undefined)
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

  private async work(): Promise<void> {
    const { world } = this
    while (world.chaos) {
      await this.sleep(world.dice.between(20, 400))
      if (world.chaos) await this.deed()
    }
    await this.finish()
    await this.morning()
  }

  /**
   * One redrive of every letter, by mended handlers: what is parked after it is somebody's fault, and is not tried again.
   * More than one redrive where the process that was asked is dead and not replaced yet, and where a message comes and is
   * parked after the redrive was made: the relay gave it up, and yet it was under way.
   */
  private async morning(): Promise<void> {
    for (; this.rounds < ROUNDS_MAX; this.rounds++) {
      while (!this.world.isDrained) await this.sleep(LOOK_MS)
      const consumer = this.untried()
      if (consumer === undefined) break
      await this.ask(({ once }) => once.redrive.run({ consumer }, { ...MORNING, canary: 0, pauseAt: 1 }))
      await this.finish()
    }
    this.done = true
  }

  /**
   * A consumer with a parked letter that no redrive of the morning has had. What was asked for in the night may be done
   * in the morning, by a process that stood still: another redrive, with its canary, or the end of the morning's own.
   */
  private untried(): string | undefined {
    const { database, settings } = this.world
    if (!settings.redrives) return undefined
    const redrives = database.redrives.rows(null).map(([, row]) => row)
    const ours = new Set(redrives.flatMap(({ id, by, state }) => (by === MORNING.by && state !== 'aborted' ? id : [])))
    const items = database.redriveItems.rows(null).filter(([, { redrive }]) => ours.has(redrive))
    const tried = new Set(items.map(([, { letter }]) => letter))
    const letters = database.letters.rows(null)
    return letters.find(([id, { state }]) => state === 'parked' && !tried.has(id))?.[1].consumer
  }

  private deed(): Promise<unknown> {
    const { dice, settings } = this.world
    const reader = dice.pick(settings.readers)
    const roll = dice.next()
    if (roll < 0.5) return this.run(reader)
    if (roll < 0.8) return this.ask((process) => this.change(process.once.redrive))
    return this.ask((process) => this.discard(process, reader))
  }

  private run({ name: consumer }: Reader): Promise<unknown> {
    const { dice, settings } = this.world
    const canary = dice.pick([0, 1, 3, { letters: 1, after: 'pause' } as const])
    const rate = dice.pick([5, 50, 1_000])
    const pauseAt = dice.pick([0.2, 1])
    // Where order is kept nothing may overtake.
    const any = settings.consumer?.ordered !== true && dice.chance(0.4)
    const filter = any ? { consumer, state: ['parked', 'skipped'] as const } : { consumer }
    return this.ask((process) => process.once.redrive.run(filter, { ...BY, canary, rate, pauseAt, reorder: any }))
  }

  private async change(redrive: Redrive): Promise<unknown> {
    const active = (await redrive.list()).find(isActive)
    if (active === undefined) return undefined
    const { dice } = this.world
    if (active.state === 'paused') return redrive.resume(active.id, { ...BY, retry: dice.chance(0.7) })
    return dice.chance(0.6) ? redrive.pause(active.id, BY) : redrive.abort(active.id, BY)
  }

  private async discard(process: SimProcess, { name: consumer }: Reader): Promise<unknown> {
    const { deadLetters, redrive } = process.once
    if (this.world.dice.chance(0.3)) return deadLetters.discard({ consumer, reason: 'crashed' }, BY)
    // From the middle of a chain, too.
    const letters = await deadLetters.list({ consumer }, { limit: 5 })
    return letters.length > 0 && redrive.discard({ ids: [this.world.dice.pick(letters).id] }, BY)
  }

  /** Until no redrive is under way: what pauses is resumed once, then given up; the morning's own goes on. */
  private async finish(): Promise<void> {
    while (this.world.database.activeRedrives.rows(null).length > 0) {
      await this.sleep(LOOK_MS)
      await this.ask(async ({ once: { redrive } }) => {
        const paused = (await redrive.list()).find(({ state }) => state === 'paused')
        if (paused === undefined) return
        if (paused.by === MORNING.by || this.resumed++ % 2 === 0) await redrive.resume(paused.id, BY)
        else await redrive.abort(paused.id, BY)
      })
    }
  }

  /** On some process; it may die of it, or not answer in time. What it did, it did. */
  private ask(deed: (process: SimProcess) => Promise<unknown>): Promise<void> {
    const { world } = this
    const process = world.dice.pick(world.processes)
    this.deeds += 1
    return new Promise((resolve) => {
      const go = (): void => world.scheduler.post(world.owner, resolve)
      world.scheduler.after(world.owner, PATIENCE_MS, resolve)
      world.scheduler.post(process, () => void deed(process).then(go, go))
    })
  }

  private sleep(ms: number): Promise<void> {
    return this.world.scheduler.sleep(this.world.owner, ms)
  }
}

function isActive({ state }: RedriveStatus): boolean {
  return state === 'running' || state === 'paused'
}
