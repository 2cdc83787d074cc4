import { final } from '../../operation/final.ts'
import { ALWAYS, invoke, leased } from './handlers.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import { resultOf } from './result.ts'
import type { Result } from './trace.ts'
import type { World } from './world.ts'

export const CALL_PATIENCE_MS = 600
export const ENCORES_MAX = 2
/** Stands for an execution in the refusal of an operator. */
export const OPERATOR = 0
/** Some clients call again after their answers have expired. They come at most this many lifetimes later. */
export const ENCORE_LATE_MAX = 2

interface Client {
  readonly number: number
  readonly plan: Plan
  readonly input: number
  /** How many calls the client makes after its first answer, some of them after the answer has expired. */
  readonly encores: number
}

/** Clients with keys. They call, time out, retry with the same key at another process, and call again later. */
export class Clients {
  undecided = 0
  private readonly world: World
  private calls = 0

  constructor(world: World) {
    this.world = world
  }

  start(): void {
    const { settings, plans } = this.world
    let number = 0
    const groups = plans.map((plan) => {
      const clients = this.clientsOf(plan, number)
      number += clients.length
      return clients
    })
    this.undecided = number
    const lanes = settings.lanes ?? groups.length
    for (let lane = 0; lane < lanes; lane++) void this.serveLane(groups, lane, lanes)
  }

  /** One more call of an operation, with the input of its first client. */
  async again(plan: Plan): Promise<void> {
    await this.call({ number: -1, plan, input: 1, encores: 0 })
  }

  private clientsOf(plan: Plan, from: number): Client[] {
    const { dice, settings, cache } = this.world
    const again = settings.relay === null ? 0.4 : settings.lanes === null ? 0.1 : 0
    const more = settings.lanes === null ? 3 : dice.chance(0.1) ? 2 : 1
    const count = settings.zombies ? 2 + dice.below(2) : 1 + dice.below(more)
    return Array.from({ length: count }, (_, i) => {
      const input = i > 0 && dice.chance(0.2) ? 2 : 1
      const encores = dice.chance(again) ? 1 + dice.below(ENCORES_MAX) : 0
      return {
        number: from + i,
        plan,
        input,
        encores: cache === null ? encores : encores + cache.dice.below(ENCORES_MAX * 2),
      }
    })
  }

  /** Serves one key after the other. All clients of one key call at the same time. */
  private async serveLane(groups: readonly (readonly Client[])[], lane: number, lanes: number): Promise<void> {
    for (let i = lane; i < groups.length; i += lanes) {
      await Promise.all((groups[i] as readonly Client[]).map((client) => this.live(client)))
    }
  }

  private async live(client: Client): Promise<void> {
    const { world } = this
    // Clients that call at almost the same time share a batch.
    await this.sleep(world.dice.below(world.settings.company === 'batches' ? 3 : 40))
    for (let encores = client.encores; ; encores--) {
      while (!(await this.ask(client))) await this.sleep(world.dice.between(1, world.chaos ? 120 : 60))
      if (encores === 0) break
      await this.sleep(
        world.dice.chance(0.5)
          ? world.dice.below(200)
          : world.settings.replayForMs * world.dice.between(0.8, ENCORE_LATE_MAX),
      )
    }
    this.undecided -= 1
  }

  /** Makes one call. Returns true when the client has no reason to retry. */
  private async ask(client: Client): Promise<boolean> {
    const { world } = this
    if (world.hit('retryStorm', client.plan.key)) for (let i = 0; i < 2; i++) void this.call(client)
    const result = await this.call(client)
    if (result === null) return false
    if (result.is !== 'error') return true
    switch (result.code) {
      case 'ONCE_MISMATCH':
      case 'ONCE_GONE':
      case 'ONCE_UNREPLAYABLE':
      case '23505':
        return true
      case 'ONCE_OUTCOME_UNKNOWN':
        await this.operator(client.plan)
        return false
      default:
        if (world.settings.weather === 'refusals' && world.dice.chance(0.3)) await this.askForUndo(client.plan)
        return false
    }
  }

  /** An operator gives up an abandoned operation. */
  private async askForUndo(plan: Plan): Promise<void> {
    const { world } = this
    const process = world.anyOf(plan.service)
    const undo = final({ status: 409, body: { zeta: 0, exec: OPERATOR, key: plan.key, alpha: false } })
    await new Promise<void>((resolve) => {
      const go = (): void => world.scheduler.post(world.owner, resolve)
      world.scheduler.after(world.owner, CALL_PATIENCE_MS, resolve)
      world.scheduler.post(process, () => void process.once.operations.settle(plan.address, { undo }).then(go, go))
    })
  }

  /** Returns null when no answer came in time, or the client did not wait for it. */
  private call({ number, plan, input }: Client): Promise<Result | null> {
    const { world } = this
    const process = world.anyOf(plan.service)
    const call = ++this.calls
    const from = { name: `c${number}`, alive: true, paused: false }
    return new Promise((resolve) => {
      const patience = world.hit('clientDisconnect', plan.key) ? world.dice.below(30) : CALL_PATIENCE_MS
      world.scheduler.after(world.owner, patience, () => resolve(null))
      world.scheduler.post(process, () => {
        const record = world.record(plan.id)
        world.note({
          kind: 'call',
          call,
          client: number,
          key: plan.key,
          input,
          mode: plan.mode,
          process: process.name,
          record,
        })
        void resultOf(() => invoke(world, process, plan, input, call)).then((result) => {
          world.note({ kind: 'outcome', call, key: plan.key, input, result, record: world.record(plan.id) })
          world.scheduler.post(from, () => resolve(result))
        })
      })
    })
  }

  /**
   * Acts as the operator: once the provider can no longer change the outcome of a call, it reads and reports that
   * outcome.
   */
  private async operator(plan: Plan): Promise<void> {
    const { world } = this
    while (world.executions.isRunning(plan)) await this.sleep(20)
    const step =
      plan.steps.find(({ name, keyed }) => !keyed && this.isStarted(plan, name))?.name ??
      plan.steps[0]?.name ??
      'call-1'
    const verdict = world.provider.verdict(plan, step)
    const process = world.anyOf(plan.service)
    if (verdict === 'stop') return
    const word = verdict === 'rerun' ? ({ step, rerun: true } as const) : { step, done: verdict.done }
    await new Promise<void>((resolve) => {
      const go = (): void => world.scheduler.post(world.owner, resolve)
      world.scheduler.after(world.owner, CALL_PATIENCE_MS, resolve)
      world.scheduler.post(process, () => void process.once.settle(plan.address, word).then(go, go))
    })
  }

  private isStarted(plan: Plan, name: string): boolean {
    return this.world.database.steps
      .rows(null)
      .some(([, step]) => step.id === plan.id && step.name === name && step.state === 'started')
  }

  private sleep(ms: number): Promise<void> {
    return this.world.scheduler.sleep(this.world.owner, ms)
  }
}

/** The number of recovery rounds in progress per process. The last one to end writes the trace event. */
const recovering = new WeakMap<SimProcess, number>()

/** Runs the recovery of abandoned operations, which completes operations whose client never retries. */
export async function recover(world: World, process: SimProcess): Promise<void> {
  recovering.set(process, (recovering.get(process) ?? 0) + 1)
  world.note({ kind: 'recovering', process: process.name })
  try {
    await process.once.recover({
      again: (op, { key, input }: { key: string; input: number }) =>
        leased({ world, process, plan: world.planOf(key), input, call: 0, inner: null, isOpen: ALWAYS }, op),
    })
  } finally {
    const left = (recovering.get(process) ?? 1) - 1
    recovering.set(process, left)
    if (left === 0) world.note({ kind: 'recovered', process: process.name })
  }
}
