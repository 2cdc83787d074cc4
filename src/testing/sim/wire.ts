import type { Connection, Step, StepPoint } from '../../store/memory/database/connection.ts'
import { deadlockDetected, HalfOpen, serializationFailure } from '../../store/memory/database/failure.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

const COMMITS = new Set(['complete', 'completeStep', 'batch.complete', 'user.commit', 'inbox.complete'])
const CAN_CONFLICT = new Set(['tx.insert', 'complete', 'batch.effect', 'batch.complete', 'completeStep'])

/**
 * The network between a process and the database. Request and reply of every statement travel in steps of their own,
 * and either can be lost. A request may arrive or be lost after its sender has died.
 */
export class Wire {
  readonly connections: Set<Connection> = new Set()
  private readonly world: World
  private readonly process: SimProcess

  constructor(world: World, process: SimProcess) {
    this.world = world
    this.process = process
  }

  readonly step: Step = (point) => {
    this.connections.add(point.connection)
    if (point.at === 'work') return this.inside(point)
    return point.at === 'send' ? this.there(point) : this.back(point)
  }

  /** Between the parts of a statement, the server may run other statements. */
  private inside({ label }: StepPoint): Promise<void> | undefined {
    const { world } = this
    if (CAN_CONFLICT.has(label)) {
      if (world.hit('serializationFailure', label)) throw serializationFailure()
      if (world.hit('deadlockVictim', label)) throw deadlockDetected()
    }
    if (label === 'takeOver.commit' && world.chaos && world.dice.chance(0.4)) return this.meet()
    if (label === 'finishStep.commit' && world.hit('slowStatement', label)) return this.stall()
    if (world.settings.rivals && label.endsWith('.locks') && world.dice.chance(0.4)) return this.linger()
    if (!world.dice.chance(world.settings.workPause)) return undefined
    return world.scheduler.turn(world.server)
  }

  /** Between the snapshot of a statement and its locks, other transactions may run from begin to end. */
  private async linger(): Promise<void> {
    const { world } = this
    for (let turns = world.dice.below(60); turns >= 0; turns--) await world.scheduler.turn(world.server)
  }

  /** A statement that takes longer than the lease of its sender, which is paused meanwhile. */
  private stall(): Promise<void> {
    const { world, process } = this
    process.pause()
    return world.scheduler.sleep(world.server, world.settings.leaseMs * world.dice.between(0.8, 2.5))
  }

  /**
   * Wakes a paused holder at the worst moment: its lease is being taken over, and the takeover is not committed yet.
   */
  private async meet(): Promise<void> {
    const { world } = this
    for (const process of world.processes) process.resume()
    for (let turns = world.dice.below(16); turns >= 0; turns--) await world.scheduler.turn(world.server)
  }

  private there({ label, connection }: StepPoint): Promise<void> {
    const { world, process } = this
    if (!process.alive) return never()
    world.notePool(process)
    if (world.outage) throw new Error('the server does not answer')
    if (world.hit('dieBefore', label)) return this.die()
    if (world.hit('pausePastLease', label)) process.pause()
    if (label === 'heartbeat' && world.hit('silentHeartbeat', label)) return never()
    if (COMMITS.has(label) && world.hit('replyLostBeforeCommit', label)) throw new Error('cut before COMMIT arrived')
    if (world.hit('connectionReset', label)) throw new Error('reset')
    if (world.hit('halfOpenConnection', label)) throw new HalfOpen()
    return new Promise((resolve) => {
      world.scheduler.post(world.server, () => {
        if (process.alive) return resolve()
        if (connection.broken || world.dice.chance(0.5)) return
        world.happened('messageOutlivesSender', label)
        resolve()
      })
    })
  }

  private back({ label }: StepPoint): Promise<void> {
    const { world, process } = this
    if (!process.alive) return never()
    if (world.hit('dieAfterEffect', label)) return this.die()
    if (COMMITS.has(label)) {
      if (world.hit('replyLostAfterCommit', label)) throw new Error('cut after COMMIT')
    } else if (world.hit('connectionReset', label)) throw new Error('reset')
    if (world.hit('pausePastLease', label)) process.pause()
    return world.scheduler.turn(process)
  }

  private die(): Promise<void> {
    this.process.die()
    return never()
  }
}

/** Creates a new promise each time, so that no shared promise keeps the continuations of dead processes in memory. */
export function never<T>(): Promise<T> {
  return new Promise<T>(() => undefined)
}
