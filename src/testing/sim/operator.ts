import type { Redrive, RedriveStatus } from '../../dead-letter/redrive/types.ts'
import { Attendant } from './attendant.ts'
import { letterLine } from './imports.ts'
import type { SimProcess } from './process.ts'
import type { Reader } from './readers.ts'
import { consumerIn } from './service.ts'
import type { World } from './world.ts'

const BY = { by: 'ada', why: 'it is 2 am' }
const AFTER_CHAOS = { by: 'bob', why: 'the handlers are mended' }

/**
 * Redrives dead letters, pauses, resumes and aborts redrives, and discards letters, from any process. In the final
 * phase it redrives every parked letter once more and leaves no redrive unfinished.
 */
export class Operator extends Attendant {
  private resumed = 0

  constructor(world: World) {
    super(world, { works: world.settings.redrives, roundsMax: 10 })
  }

  protected pause(): number {
    const { dice, settings } = this.world
    return settings.weather === 'imports' ? dice.between(5, 60) : dice.between(20, 400)
  }

  protected hasWork(): boolean {
    return this.untried() !== undefined
  }

  /**
   * Redrives every letter once, with fixed handlers. A letter that is parked afterwards counts as a violation and is
   * not tried again. More redrives are needed if the process that was asked is dead and not replaced yet. The same
   * holds if a message is parked after the redrive was created, because it was still in transit when the relay parked
   * its event.
   */
  protected async settle(): Promise<void> {
    const stored = this.untried()
    if (stored === undefined) return
    const { service, name: consumer } = consumerIn(this.world.database, stored)
    const action = ({ once }: SimProcess): Promise<unknown> =>
      once.redrive.run({ consumer }, { ...AFTER_CHAOS, canary: 0, pauseAt: 1 })
    await this.ask(action, this.world.anyOf(service))
    await this.finish()
  }

  /**
   * The stored name of a consumer with a parked letter that no redrive of the final phase has covered. A paused process
   * may carry out a request of the chaos phase in the final phase. So another redrive with a canary may run, or the
   * redrive of the final phase may be aborted.
   */
  private untried(): string | undefined {
    const { database, settings } = this.world
    if (!settings.redrives) return undefined
    const redrives = database.redrives.rows(null).map(([, row]) => row)
    const ours = new Set(
      redrives.flatMap(({ id, by, state }) => (by === AFTER_CHAOS.by && state !== 'aborted' ? id : [])),
    )
    const items = database.redriveItems.rows(null).filter(([, { redrive }]) => ours.has(redrive))
    const tried = new Set(items.map(([, { letter }]) => letter))
    const letters = database.letters.rows(null)
    return letters.find(([id, { state }]) => state === 'parked' && !tried.has(id))?.[1].consumer
  }

  protected act(): Promise<unknown> {
    const { dice, settings } = this.world
    const reader = dice.pick(settings.readers)
    if (settings.weather === 'imports' && dice.chance(0.7)) return this.ask((process) => this.bring(process, reader))
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
    // In an ordered world, a letter must not be redriven before its predecessors.
    const any = settings.consumer?.ordered !== true && dice.chance(0.4)
    const filter = any ? { consumer, state: ['parked', 'skipped'] as const } : { consumer }
    return this.ask((process) => process.once.redrive.run(filter, { ...BY, canary, rate, pauseAt, reorder: any }))
  }

  /** Imports letters of messages that the broker still has. Some of these messages are being handled at this moment. */
  private async bring(process: SimProcess, reader: Reader): Promise<unknown> {
    const messages = [...this.world.queues[process.service].of(reader).messages]
    const some = messages.filter(() => this.world.dice.chance(0.5))
    const lines = some.map((message) => letterLine(process, reader, message))
    return lines.length > 0 && process.once.deadLetters.import(lines, BY)
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
    // The discarded letter may be in the middle of a chain.
    const letters = await deadLetters.list({ consumer }, { limit: 5 })
    return letters.length > 0 && redrive.discard({ ids: [this.world.dice.pick(letters).id] }, BY)
  }

  /**
   * Waits until no redrive is running. A paused redrive is resumed once, then aborted. A redrive of the final phase
   * continues.
   */
  protected async finish(): Promise<void> {
    while (this.world.database.activeRedrives.rows(null).length > 0) {
      await this.look()
      await this.ask(async ({ once: { redrive } }) => {
        const paused = (await redrive.list()).find(({ state }) => state === 'paused')
        if (paused === undefined) return
        if (paused.by === AFTER_CHAOS.by || this.resumed++ % 2 === 0) await redrive.resume(paused.id, BY)
        else await redrive.abort(paused.id, BY)
      })
    }
  }
}

function isActive({ state }: RedriveStatus): boolean {
  return state === 'running' || state === 'paused'
}
