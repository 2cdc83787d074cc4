import { invalid } from '../../options.ts'
import { instanceOf } from '../../once/instance.ts'
import type { Once } from '../../once/types.ts'
import type { SqlStore } from '../../store/store.ts'
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
  /** Default 1000. */
  readonly schedules?: number
  /** Default 1: the same seed, the same schedules. */
  readonly seed?: number
  /** Which faults to inject. Default: all. */
  readonly faults?: readonly Fault[]
}

export interface Scenario {
  /** Called before every schedule: empty the tables that `check` counts. */
  reset?(): unknown
  /** What one client does. `client.retry` retries with the same key until it knows the outcome. */
  act(client: SimulatedClient): Promise<unknown>
  /** Throws when a promise is broken. */
  check(): unknown
}

export interface SimulationReport {
  readonly seed: number
  readonly schedules: number
  /** The store calls that one `act` makes without faults. */
  readonly calls: readonly string[]
  readonly injected: Readonly<Record<Fault, number>>
}

/** A schedule in which the check failed: the injected faults, and what happened. */
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
    super(`seed ${of.seed}, schedule ${of.schedule}: ${describeHits(of.hits)}: ${reason}`, { cause: of.cause })
    this.seed = of.seed
    this.schedule = of.schedule
    this.hits = of.hits
  }
}

const SCHEDULES_DEFAULT = 1_000
const SHOTS_MAX = 3

/**
 * Runs the scenario again and again on the real code and the real store, with another fault each time. It plays every
 * fault at every call of the store, then several at once, chosen by the seed. It throws the first schedule that breaks
 * the scenario's check.
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
  const store = instanceOf(options.once).core.store as SqlStore<unknown>
  const injector = new Injector(store)
  const injected = Object.fromEntries(FAULTS.map((fault) => [fault, 0])) as Record<Fault, number>
  const dice = new Dice(seed)
  let calls: readonly string[] = []
  let rest: Shot[][] = []
  try {
    for (let schedule = 0; schedule < schedules; schedule++) {
      const shots = schedule === 0 ? [] : (rest.pop() ?? severalShots(dice, calls.length, faults))
      await runOne({ injector, scenario, seed, schedule, shots })
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

async function runOne(of: {
  readonly injector: Injector
  readonly scenario: Scenario
  readonly seed: number
  readonly schedule: number
  readonly shots: readonly Shot[]
}): Promise<void> {
  const { injector, scenario, seed, schedule, shots } = of
  injector.arm([])
  try {
    await scenario.reset?.()
    injector.arm(shots)
    const name = `simulated-${process.pid}-${Date.now().toString(36)}-${seed}-${schedule}`
    await scenario.act(new Client(name, () => injector.letLapse()))
    await scenario.check()
  } catch (cause) {
    throw new SimulationError({ seed, schedule, hits: [...injector.hits], cause })
  }
}

function singleShots(calls: number, faults: readonly Fault[]): Shot[][] {
  return Array.from({ length: calls }, (_, at) => at).flatMap((at) => faults.map((fault) => [{ at, fault }]))
}

/** Several faults in one schedule. Their retries make more calls than the first run. */
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
