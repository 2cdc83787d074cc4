import type { Context } from '../../platform/context.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import type { Value } from './handlers.ts'
import type { Child, Deed } from './meeting.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import { failureOf, textOf } from './result.ts'
import { sharedContext } from './shared-context.ts'
import type { World } from './world.ts'

/** The handler that runs others: which execution it is, and the transaction around it. */
export interface Asker {
  readonly world: World
  readonly process: SimProcess
  readonly exec: number
  /** null: a leased handler, outside its commit. */
  readonly tx: MemoryTx | null
  /** Whether its operation is under way: it may have passed its deadline. */
  isOpen(): boolean
  run(plan: Plan, through: Child['through'], inner: number): Promise<unknown>
}

/** The call of a handler that a batched statement is made for. */
export const asking: Context<number> = sharedContext<number>()

const RACE_MS = 30
const LATE_MS_MAX = 600
/** What is begun after its operation has ended begins others in turn: at most so many in one world. */
const INNER_MAX = 300

export async function doDeeds(deeds: readonly Deed[], asker: Asker): Promise<void> {
  for (const [n, deed] of deeds.entries()) {
    const row = deed.writes ? writeRow(asker, `beside-${n}`) : Promise.resolve()
    try {
      await Promise.all([row, doDeed(deed, asker)])
    } catch (error) {
      if (!deed.catches) throw error
    }
  }
}

async function doDeed({ how, children }: Deed, asker: Asker): Promise<void> {
  const { world, process } = asker
  const run = (child: Child): Promise<void> => runInside(child, asker)
  switch (how) {
    case 'inTurn':
      for (const child of children) await run(child)
      return
    case 'all':
      await Promise.all(children.map(run))
      return
    case 'settled':
      await Promise.allSettled(children.map(run))
      return
    case 'race':
      await Promise.race([...children.map(run).map(heard), process.sleep(RACE_MS)])
      return
    case 'detached':
      for (const child of children) void heard(run(child))
      return
    default: {
      const ms = world.dice.below(LATE_MS_MAX)
      for (const child of children) if (child.through === 'run') void heard(process.sleep(ms).then(() => run(child)))
    }
  }
}

/** A row of the handler's own, beside what it runs inside. */
async function writeRow({ world, tx, exec }: Asker, part: string): Promise<void> {
  if (tx === null) return
  await tx.insert('own', { exec, part })
  world.note({ kind: 'wrote', exec, part })
}

/** A refusal inside heals at its savepoint, and is nobody's failure; anything else is told to whoever runs it. */
async function runInside({ key, through }: Child, asker: Asker): Promise<void> {
  const { world, process, exec, tx } = asker
  const inner = world.nextInner()
  if (inner > INNER_MAX) return
  // Whoever has no transaction has none to give.
  const by = tx === null ? 'run' : through
  const inside = tx !== null && (asker.isOpen() || null)
  world.note({
    kind: 'inner',
    inner,
    outer: exec,
    key,
    process: process.name,
    inside,
    through: by,
  })
  try {
    const value = (await asking.run(inner, () => asker.run(world.planOf(key), by, inner))) as Value
    world.note({ kind: 'innerOutcome', inner, key, result: { is: 'value', exec: value.exec, text: textOf(value) } })
  } catch (error) {
    const result = failureOf(error)
    world.note({ kind: 'innerOutcome', inner, key, result })
    if (result.is !== 'refusal') throw error
  }
}

/** A failure that nobody waits for. */
function heard(call: Promise<void>): Promise<void> {
  return call.catch(() => undefined)
}
