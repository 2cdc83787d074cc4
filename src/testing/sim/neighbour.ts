import { createOnce } from '../../once/once.ts'
import type { OnceInstance } from '../../once/once.ts'
import { decide } from '../../lifecycle/decide.ts'
import { MemoryDatabase } from '../../store/memory/database/database.ts'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { Dice } from './dice.ts'
import type { Plan } from './plan.ts'
import { failureOf } from './result.ts'
import { NAMESPACES } from './service.ts'
import { noContext } from './shared-context.ts'
import type { World } from './world.ts'

const ROUNDS = 4
const WORK_MS = 40
/** An input that no client of the main service sends, so that its answers cannot be mixed up with theirs unnoticed. */
const INPUT = { input: 3 }

/**
 * The same service for another tenant, in a schema of its own, with the same namespace and the same keys. It makes one
 * call after the other and has no faults, so no call of it may be refused.
 */
export class Neighbour {
  private readonly world: World
  private readonly once: OnceInstance<MemoryTx, {}>

  constructor(world: World) {
    this.world = world
    const { scheduler, owner, database } = world
    const clock = {
      now: () => scheduler.look(),
      after: (ms: number, callback: () => void) => scheduler.timer(owner, ms, callback),
    }
    const step = (): Promise<void> => scheduler.turn(world.server)
    const store = memoryStore({ database: new MemoryDatabase({ clock: database.clock, beside: database }), step })
    this.once = createOnce(
      { namespace: NAMESPACES[0][0], store, guard: 'off', sweep: false },
      { clock, random: new Dice(world.seed), decide },
    )
    Object.assign(this.once.core, { enclosing: noContext() })
  }

  start(): void {
    void this.live()
  }

  private async live(): Promise<void> {
    const { world } = this
    for (let round = 0; round < ROUNDS; round++) {
      for (const plan of world.plans) await this.ask(plan, round)
    }
  }

  private async ask({ address, key }: Plan, round: number): Promise<void> {
    const { scheduler, owner, dice } = this.world
    await scheduler.sleep(owner, dice.below(WORK_MS))
    try {
      // Every second round uses the old key again; the others use a new one.
      const of = { ...address, key: round % 2 === 0 ? address.key : `${address.key}-${round}` }
      await this.once.run({ ...of, input: INPUT }, async ({ tx }) => {
        await tx.insert('neighbours', { key })
        await scheduler.sleep(owner, dice.below(WORK_MS))
        return round
      })
    } catch (error) {
      const result = failureOf(error)
      this.world.note({ kind: 'crossed', key, code: result.is === 'error' ? result.code : result.is })
    }
  }
}
