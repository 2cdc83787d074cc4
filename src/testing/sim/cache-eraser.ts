import { dropAnswers } from '../../store/answer-cache.ts'
import { answerKey } from '../../store/memory/database/rows.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

const EVERY_MS = 60
const RETRIES = 2

/** Erases answers in the database and then in the cache. Afterwards it calls again: nobody may get them any more. */
export class CacheEraser {
  private readonly world: World
  private readonly erasing = new Map<Plan, SimProcess>()

  constructor(world: World) {
    this.world = world
  }

  /** A process that died erases nothing more. */
  get isDone(): boolean {
    return [...this.erasing.values()].every(({ alive }) => !alive)
  }

  start(): void {
    const { world } = this
    const { cache } = world
    if (cache === null) return
    world.scheduler.after(world.owner, EVERY_MS * (0.5 + cache.dice.next()), () => {
      if (!world.chaos) return
      const plan = cache.dice.pick(world.plans)
      const process = cache.dice.pick(world.processes)
      if (cache.dice.chance(0.4) && process.service === plan.service)
        world.scheduler.post(process, () => void this.erase(process, plan))
      this.start()
    })
  }

  /** Erases the answer of this record, if there is one. */
  eraseSoon(id: string): void {
    const { world } = this
    const plan = world.plans.find((of) => of.id === id)
    const { cache } = world
    if (plan === undefined || cache === null) return
    const process = cache.dice.pick(world.processes.filter(({ service }) => service === plan.service))
    world.scheduler.post(process, () => void this.erase(process, plan))
  }

  private async erase(process: SimProcess, plan: Plan): Promise<void> {
    const { world } = this
    const shared = process.instances[plan.instance].core.shared
    const record = world.record(plan.id)
    if (shared === null || record?.state !== 'completed' || this.erasing.has(plan)) return
    const tx = world.database.begin({ interactive: false })
    const key = answerKey(plan.id, record.token)
    const isFree = !world.database.answers.locked(key, tx, 'update')
    if (isFree) world.database.answers.put(key, undefined, tx)
    tx.commit()
    if (!isFree) return
    world.happened('answerDropped', plan.key)
    this.erasing.set(plan, process)
    world.cache?.snapshot()
    await dropAnswers(shared, [plan.id]).then(
      () => world.note({ kind: 'answerErased', key: plan.key, life: record.life }),
      () => undefined,
    )
    this.erasing.delete(plan)
    world.cache?.restore()
    for (let n = 0; n < RETRIES; n++) await world.clients.again(plan)
  }
}
