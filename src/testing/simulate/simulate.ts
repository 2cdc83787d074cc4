import { invalid } from '../../options.ts'
import { instanceOf } from '../../once/instance.ts'
import type { Once } from '../../once/types.ts'
import type { Core, StoppableWork } from '../../operation/core.ts'
import type { SqlStore } from '../../store/store.ts'
import { hintAt } from '../hint.ts'
import { Dice } from '../sim/dice.ts'
import { Client } from './client.ts'
import type { SimulatedClient } from './client.ts'
import { describeHits, FAULTS } from './fault.ts'
import type { Fault, Hit, Shot } from './fault.ts'
import { Injector } from './injector.ts'

export type { SimulatedClient } from './client.ts'
export type { Fault, Hit } from './fault.ts'

export interface SimulateOptions {
  // oxlint-disable-next-line no-explicit-any -- any instance
  readonly once: Once<any, any>
  /** The number of schedules to run. Default: 1000. */
  readonly schedules?: number
  /** The same seed produces the same schedules. Default: 1. */
  readonly seed?: number
  /** The kinds of fault to inject. Default: all of them. */
  readonly faults?: readonly Fault[]
}

export interface Scenario {
  /** Called before every schedule. Empty the tables that `check` counts. */
  reset?(): unknown
  /** Performs the operation of one client. `client.retry` retries with the same key until it knows the outcome. */
  act(client: SimulatedClient): Promise<unknown>
  /** Throws when the state after the schedule is wrong. */
  check(): unknown
}

export interface SimulationReport {
  readonly seed: number
  readonly schedules: number
  /** The store calls that one `act` makes when no fault is injected. */
  readonly calls: readonly string[]
  readonly injected: Readonly<Record<Fault, number>>
}

/** Thrown when the check fails after a schedule. It says which faults were injected, and what happened. */
export class SimulationError extends Error {
  override readonly name: string = 'SimulationError'
  readonly seed: number
  readonly schedule: number
  readonly hits: readonly Hit[]

  constructor(of: {
    readonly seed: number
    readonly schedule: number
    readonly hits: readonly Hit[]
    readonly cause: unknown
  }) {
    const reason = of.cause instanceof Error ? of.cause.message : String(of.cause)
    const hint = hintAt(of.hits.map(({ call }) => call))
    super(`seed ${of.seed}, schedule ${of.schedule}: ${describeHits(of.hits)}: ${reason}${hint}`, { cause: of.cause })
    this.seed = of.seed
    this.schedule = of.schedule
    this.hits = of.hits
  }
}

const SCHEDULES_DEFAULT = 1_000
const SHOTS_MAX = 3
/** The client of a dead process makes no more calls. */
const NEVER = new Promise<void>(() => {})

/**
 * Runs the scenario repeatedly on the real code and the real store, with a different fault each time. It injects every
 * fault into every call of the store, then several faults at once, chosen by the seed. It throws at the first schedule
 * that breaks the scenario's check.
 *
 * @example
 * test('one charge, whatever dies', () => simulate({ once, schedules: 500 }, {
 *   reset: () => db.delete(charges),
 *   act: (client) => client.retry((key) => post('/charges', { key, amount: 500 })),
 *   check: async () => expect(await db.$count(charges)).toBe(1),
 * }))
 */
export async function simulate(options: SimulateOptions, scenario: Scenario): Promise<SimulationReport> {
  const { schedules, seed, faults } = checkOptions(options)
  const { core } = instanceOf(options.once)
  const injector = new Injector(core.store as SqlStore<unknown>)
  const workers = new Workers(core)
  const injected = Object.fromEntries(FAULTS.map((fault) => [fault, 0])) as Record<Fault, number>
  const dice = new Dice(seed)
  let calls: readonly string[] = []
  let rest: Shot[][] = []
  try {
    for (let schedule = 0; schedule < schedules; schedule++) {
      const shots = schedule === 0 ? [] : (rest.pop() ?? severalShots(dice, calls.length, faults))
      await runOne({ injector, workers, scenario, seed, schedule, shots })
      for (const { fault } of injector.hits) injected[fault] += 1
      if (schedule > 0) continue
      calls = [...injector.calls]
      rest = shuffled(dice, singleShots(calls.length, faults))
    }
  } finally {
    injector.remove()
  }
  return { seed, schedules, calls, injected }
}

/** The relays and consumers of an instance. */
class Workers {
  readonly #sets: readonly ReadonlySet<StoppableWork>[]
  readonly #before: ReadonlySet<StoppableWork>

  constructor({ workers, relays }: Pick<Core<unknown>, 'workers' | 'relays'>) {
    this.#sets = [workers, relays]
    this.#before = new Set([...workers, ...relays])
  }

  /** Stops relays and consumers that a dead process started. Otherwise they would run for ever. */
  stopNew(): void {
    for (const work of this.#sets.flatMap((set) => [...set])) {
      if (!this.#before.has(work)) work.stop({ within: '0s' }).catch(() => {})
    }
  }
}

async function runOne(of: {
  readonly injector: Injector
  readonly workers: Workers
  readonly scenario: Scenario
  readonly seed: number
  readonly schedule: number
  readonly shots: readonly Shot[]
}): Promise<void> {
  const { injector, workers, scenario, seed, schedule, shots } = of
  injector.arm([])
  try {
    await injector.letLapse()
    await scenario.reset?.()
    injector.arm(shots)
    const name = `simulated-${process.pid}-${Date.now().toString(36)}-${seed}-${schedule}`
    for (;;) {
      const ended = await injector.live((process) => {
        const lapse = (): Promise<void> => (process.isDead ? NEVER : injector.letLapse())
        return scenario.act(new Client(name, lapse))
      })
      if (ended === 'ended') break
      workers.stopNew()
      await injector.letLapse()
    }
    injector.disarm()
    await scenario.check()
  } catch (cause) {
    throw new SimulationError({ seed, schedule, hits: [...injector.hits], cause })
  }
}

function singleShots(calls: number, faults: readonly Fault[]): Shot[][] {
  return Array.from({ length: calls }, (_, at) => at).flatMap((at) => faults.map((fault) => [{ at, fault }]))
}

/** Several faults in one schedule. Their positions may lie beyond the first run, because retries make more calls. */
function severalShots(dice: Dice, calls: number, faults: readonly Fault[]): Shot[] {
  const count = 1 + dice.below(SHOTS_MAX)
  return Array.from({ length: count }, () => ({ at: dice.below(calls * 2 + 1), fault: dice.pick(faults) }))
}

function shuffled<T>(dice: Dice, list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i--) {
    const j = dice.below(i + 1)
    ;[list[i], list[j]] = [list[j]!, list[i]!]
  }
  return list
}

function checkOptions(options: SimulateOptions): { schedules: number; seed: number; faults: readonly Fault[] } {
  const { schedules = SCHEDULES_DEFAULT, seed = 1, faults = FAULTS } = options
  for (const [name, value] of Object.entries({ schedules, seed })) {
    if (!Number.isSafeInteger(value) || value < 1) throw invalid(`simulate: ${name} must be a whole number from 1`)
  }
  const unknown = faults.find((fault) => !FAULTS.includes(fault))
  if (unknown !== undefined || faults.length === 0)
    throw invalid(`simulate: faults must be some of ${FAULTS.join(', ')}`)
  return { schedules, seed, faults }
}
