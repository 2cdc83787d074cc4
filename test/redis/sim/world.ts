import { isOnceError } from '../../../src/errors.ts'
import { identity } from '../../../src/key/identity.ts'
import type { Dice } from '../../../src/testing/sim/dice.ts'
import { Scheduler, type Owner } from '../../../src/testing/sim/scheduler.ts'
import type { Mutant } from './mutants.ts'
import { Process } from './process.ts'
import { parsed } from './rules.ts'
import { SimRedis } from './server.ts'

/** The highest rate that a seed may draw for each fault. */
const FAULTS = {
  dies: 0.04,
  pauses: 0.06,
  requestLost: 0.1,
  requestLate: 0.05,
  replyLost: 0.2,
  failover: 0.02,
  cut: 0.12,
  clockSteps: 0.05,
  stepFails: 0.4,
} as const
export type Fault = keyof typeof FAULTS
export const FAULT_KINDS = Object.keys(FAULTS) as Fault[]

const CHAOS_STEPS = 1_500
const PEACE_STEPS = 60_000
const EVERY_MS = 60
const RETRY_MS = 50
const START_MS_MAX = 1_000
/** Longer than any transition takes with all its retries. A caller whose process died calls again. */
const PATIENCE_MS = 20_000

interface Operation {
  readonly key: string
  readonly isKeyed: boolean
  readonly holdMs: number
  /** The keys that a provider saw. */
  readonly derived: Set<string>
  calls: number
  /** Answers that a holder got for its own completion. */
  readonly answers: Set<number>
}

export interface Outcome {
  readonly violations: readonly string[]
  readonly faults: Readonly<Record<Fault, number>>
  readonly effects: number
  readonly trace: string
}

/** One seed: processes on Redis with one replica, callers with keys, and every fault that the notes on Redis know. */
export class World {
  readonly scheduler: Scheduler
  readonly dice: Dice
  readonly leaseMs: number
  readonly redis: SimRedis
  readonly mutant: Mutant | null
  readonly owner: Owner = { name: 'world', alive: true, paused: false }
  readonly faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<Fault, number>
  readonly #rates: Readonly<Record<Fault, number>>
  readonly #processes: Process[] = []
  readonly #operations: readonly Operation[]
  readonly #violations = new Set<string>()
  #trace = ''
  #chaos = true
  #waiting = 0
  #executions = 0

  constructor(seed: number, mutant: Mutant | null) {
    this.mutant = mutant
    this.scheduler = new Scheduler(seed)
    this.dice = this.scheduler.dice
    const { dice } = this
    // Half of the faults are absent from a world.
    const rate = (kind: Fault): number => (dice.chance(0.5) ? FAULTS[kind] * dice.next() : 0)
    this.#rates = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, rate(kind)])) as Record<Fault, number>
    this.leaseMs = 100 + dice.below(200)
    this.redis = new SimRedis(this)
    this.#operations = Array.from({ length: 1 + dice.below(3) }, (_, i) => ({
      key: `key-${i}`,
      isKeyed: dice.chance(0.7),
      holdMs: dice.below(2 * this.leaseMs),
      derived: new Set<string>(),
      calls: 0,
      answers: new Set<number>(),
    }))
  }

  async run(): Promise<Outcome> {
    const unhandled = (error: unknown): void => this.broke(`unhandled: ${String(error)}`)
    process.on('unhandledRejection', unhandled)
    const { dice, scheduler } = this
    const count = 2 + dice.below(2)
    for (let i = 0; i < count; i++) this.#processes.push(new Process(this, `p${i}`))
    for (const operation of this.#operations) {
      // Its first claim may meet every fault.
      const at = dice.below(START_MS_MAX)
      for (let callers = 2 + dice.below(2); callers > 0; callers--) void this.#caller(operation, at)
    }
    this.#mischief()
    await scheduler.run(() => this.#waiting === 0, CHAOS_STEPS)
    this.#chaos = false
    this.redis.mend()
    if ((await scheduler.run(() => this.#waiting === 0, PEACE_STEPS)) !== 'until')
      this.broke('I19: a caller has no answer')
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', unhandled)
    for (const { key, derived, isKeyed, calls, answers } of this.#operations) {
      if (derived.size > 1) this.broke(`R3: ${key} has ${derived.size} effects`)
      if (!isKeyed && calls > 1) this.broke(`R3: ${key} called ${calls} times without a key`)
      if (answers.size > 1) this.broke(`R3: ${key} has ${answers.size} acknowledged answers`)
    }
    const effects = this.#operations.reduce((sum, { derived }) => sum + derived.size, 0)
    return { violations: [...this.#violations], faults: this.faults, effects, trace: this.#trace }
  }

  broke(violation: string): void {
    this.#violations.add(violation)
  }

  hit(kind: Fault): boolean {
    if (!this.#chaos || !this.dice.chance(this.#rates[kind])) return false
    this.faults[kind] += 1
    this.note(kind)
    return true
  }

  note(what: string): void {
    this.#trace += `${this.scheduler.time.toFixed(3)} ${what}\n`
  }

  replace(dead: Process): void {
    this.scheduler.after(this.owner, this.dice.between(5, 200), () => {
      this.#processes[this.#processes.indexOf(dead)] = new Process(this, `${dead.name}'`)
    })
  }

  #mischief(): void {
    this.scheduler.after(this.owner, EVERY_MS * (0.5 + this.dice.next()), () => {
      if (!this.#chaos) return
      if (this.hit('cut')) this.redis.cut()
      if (this.hit('failover')) this.redis.failOver()
      if (this.hit('clockSteps')) this.redis.stepClock()
      this.#mischief()
    })
  }

  /** Calls until there is an answer, and perhaps again after that. */
  async #caller(operation: Operation, at: number): Promise<void> {
    this.#waiting += 1
    await this.scheduler.sleep(this.owner, at + this.dice.below(RETRY_MS))
    for (let answers = 1 + this.dice.below(2); answers > 0;) {
      const told = await Promise.race([
        this.#call(this.dice.pick(this.#processes), operation),
        this.scheduler.sleep(this.owner, PATIENCE_MS).then(() => 'nothing'),
      ])
      this.note(`${operation.key} ${told}`)
      if (told === 'answered' || told === 'ONCE_OUTCOME_UNKNOWN') answers -= 1
      await this.scheduler.sleep(this.owner, RETRY_MS * (0.5 + this.dice.next()))
    }
    this.#waiting -= 1
  }

  async #call(process: Process, operation: Operation): Promise<string> {
    const { key, isKeyed, holdMs } = operation
    const own = new Set<number>()
    const place = `sim:{${identity({ namespace: 'sim', scope: 'u', key }).id}}`
    const { era } = this.redis
    const confirmed = (what: string, has: (fields: ReadonlyMap<string, string>) => boolean): void => {
      if (!this.redis.isConfirmed(place, era, has)) this.broke(`R3: ${what} before a replica knows of it`)
    }
    const request = { scope: 'u', key, input: 1, lease: `${this.leaseMs}ms` } as const
    try {
      const answer = await process.once.run(request, async ({ step, commit, attempt }) => {
        const exec = ++this.#executions
        own.add(exec)
        this.note(`${key} runs ${exec} on ${process.name}`)
        confirmed('ran', (fields) => (parsed(fields)?.attempt ?? 0) >= attempt)
        const pay = async ({ key: derived }: { key: string }): Promise<number> => {
          if (!isKeyed) confirmed('called', (fields) => fields.has(':pay') || parsed(fields)?.state !== '1')
          await process.sleep(this.dice.below(this.leaseMs))
          await process.turn()
          operation.derived.add(derived)
          operation.calls += 1
          await process.turn()
          if (isKeyed && this.hit('stepFails')) throw new Error('the reply of the provider was lost')
          return exec
        }
        await step('pay', pay, { keyed: isKeyed })
        await process.sleep(holdMs * this.dice.next())
        await process.turn()
        return commit(() => exec)
      })
      if (own.has(answer)) {
        operation.answers.add(answer)
        confirmed('answered', (fields) => parsed(fields)?.state === '2')
      }
      return 'answered'
    } catch (error) {
      if (isOnceError(error)) return error.code
      return (error as Error).message
    }
  }
}
