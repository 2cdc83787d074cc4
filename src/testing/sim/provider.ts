import type { Plan, PlannedStep } from './plan.ts'
import type { SimProcess } from './process.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

interface Call {
  readonly process: SimProcess
  readonly plan: Plan
  readonly exec: number
  readonly step: PlannedStep
  readonly derived: string
}

interface Charge {
  readonly charge: number
}

/** An outside provider that charges. It honours idempotency keys where the step says so. */
export class Provider {
  private readonly world: World
  private readonly byKey = new Map<string, Charge>()
  /** The charges made, by operation and step. An operator reads them to settle a call. */
  private readonly made = new Map<string, Charge>()
  private readonly undone = new Set<string>()
  private travelling = 0

  constructor(world: World) {
    this.world = world
  }

  async call(of: Call): Promise<Charge> {
    const { exec, plan, step } = of
    const { executions } = this.world
    const told = { exec, key: plan.key, step: step.name, keyed: step.keyed, token: executions.tokenOf(exec) }
    this.world.note({ kind: 'calling', ...told })
    // The life is read now, because the handler may have ended when the call arrives.
    const life = executions.lifeOf(exec)
    try {
      return await this.ask(of, life)
    } finally {
      this.world.note({ kind: 'called', ...told })
    }
  }

  private async ask(of: Call, life: number | null): Promise<Charge> {
    const { world } = this
    this.travelling += 1
    if (of.step.slowMs > 0) await world.scheduler.sleep(world.server, of.step.slowMs)
    await this.arrive(of.process)
    const failing = world.executions.isAmong(`${of.plan.key} ${of.step.name}`, of.step.failures)
    const down = failing || world.hit('providerDown', of.step.name)
    const charge = down ? null : this.charge(of, life)
    this.travelling -= 1
    if (!of.process.alive) return never()
    await of.process.turn('provider')
    if (charge === null) throw new Error('the provider is down')
    if (world.hit('providerReplyLost', of.step.name)) throw new Error('the reply of the provider was lost')
    return charge
  }

  /** Undoes a charge. It travels like a call, and the provider honours its key. */
  async undo({ process, plan, step, derived }: Call, life: number | null): Promise<string> {
    const { world } = this
    await new Promise<void>((resolve) => {
      world.scheduler.post(world.server, () => {
        if (process.alive || world.dice.chance(0.5)) resolve()
      })
    })
    const down = world.hit('providerDown', step.name)
    if (!down && life !== null) {
      world.note({ kind: 'undone', key: plan.key, life, step: step.name, derived, effect: !this.undone.has(derived) })
      this.undone.add(derived)
    }
    if (!process.alive) return never()
    await process.turn('provider')
    if (down) throw new Error('the provider is down')
    if (world.hit('providerReplyLost', step.name)) throw new Error('the reply of the provider was lost')
    return 'undone'
  }

  /** Reports the outcome of a call. It gives no outcome while a request may still be in transit. */
  async reconcile(process: SimProcess, plan: Plan, step: string): Promise<{ done: Charge } | 'rerun' | 'stop'> {
    await process.turn('reconcile')
    return this.verdict(plan, step)
  }

  verdict(plan: Plan, step: string): { done: Charge } | 'rerun' | 'stop' {
    if (this.travelling > 0) return 'stop'
    const life = this.world.record(plan.id)?.life ?? null
    const made = this.made.get(`${plan.id} ${life} ${step}`)
    this.world.note({ kind: 'verdict', key: plan.key, step, rerun: made === undefined, life })
    return made === undefined ? 'rerun' : { done: made }
  }

  /** A request in transit may arrive or be lost after its sender has died. */
  private arrive(process: SimProcess): Promise<void> {
    const { world } = this
    return new Promise((resolve) => {
      world.scheduler.post(world.server, () => {
        if (process.alive || world.dice.chance(0.5)) return resolve()
        this.travelling -= 1
      })
    })
  }

  private charge({ plan, exec, step, derived }: Call, life: number | null): Charge {
    const known = step.keyed ? this.byKey.get(derived) : undefined
    const charge = known ?? { charge: this.made.size + 1 }
    this.byKey.set(derived, charge)
    this.made.set(`${plan.id} ${life} ${step.name}`, charge)
    const { key } = plan
    this.world.note({
      kind: 'provider',
      key,
      life,
      step: step.name,
      exec,
      derived,
      keyed: step.keyed,
      effect: known === undefined,
    })
    return charge
  }
}
