import type { Context } from '../../platform/context.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import type { Value } from './handlers.ts'
import type { Child, NestedCalls } from './meeting.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import { failureOf, textOf } from './result.ts'
import { sharedContext } from './shared-context.ts'
import type { World } from './world.ts'

/** A handler that runs other operations: its execution, and the transaction around it. */
export interface Asker {
  readonly world: World
  readonly process: SimProcess
  readonly exec: number
  /** null for a leased handler outside its commit. */
  readonly tx: MemoryTx | null
  /** Whether the operation is still running. It may have passed its deadline. */
  isOpen(): boolean
  run(plan: Plan, through: Child['through'], inner: number): Promise<unknown>
}

/** The call of a handler for which a batched statement runs. */
export const asking: Context<number> = sharedContext<number>()

const RACE_MS = 30
const LATE_MS_MAX = 600
/**
 * An operation that starts after its outer one has ended may start further operations. This is their maximum number in
 * one world.
 */
const INNER_MAX = 300

export async function runNestedCalls(nestedCalls: readonly NestedCalls[], asker: Asker): Promise<void> {
  for (const [n, calls] of nestedCalls.entries()) {
    const row = calls.writes ? writeRow(asker, `beside-${n}`) : Promise.resolve()
    try {
      await Promise.all([row, runCalls(calls, asker)])
    } catch (error) {
      if (!calls.catches) throw error
    }
  }
}

async function runCalls({ how, children }: NestedCalls, asker: Asker): Promise<void> {
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

/** Writes a row of the handler's own, beside the rows of its inner operations. */
async function writeRow({ world, tx, exec }: Asker, part: string): Promise<void> {
  if (tx === null) return
  await tx.insert('own', { exec, part })
  world.note({ kind: 'wrote', exec, part })
}

/**
 * Runs an inner operation. A refusal is rolled back to its savepoint and fails no one else. Any other error goes to the
 * caller.
 */
async function runInside({ key, through }: Child, asker: Asker): Promise<void> {
  const { world, process, exec, tx } = asker
  const inner = world.nextInner()
  if (inner > INNER_MAX) return
  // Without a transaction the handler has none to pass to `join`.
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

/** Swallows a rejection that no code awaits. */
function heard(call: Promise<void>): Promise<void> {
  return call.catch(() => undefined)
}
