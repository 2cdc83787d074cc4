import { raised } from '../../store/memory/database/failure.ts'
import type { DatabaseOptions } from '../../store/memory/database/database.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import type { FaultKind } from './fault.ts'
import type { Trouble } from './meeting.ts'
import type { Plan } from './plan.ts'
import type { World } from './world.ts'

type Kind = Exclude<Trouble['is'], 'none' | 'mute'>

const KINDS: Readonly<Record<Kind, { readonly table: string; readonly fault: FaultKind }>> = {
  raises: { table: 'raising', fault: 'statementRaises' },
  hangs: { table: 'hanging', fault: 'statementHangs' },
  commits: { table: 'refused', fault: 'commitRaises' },
}

/** The user's tables with faults: a trigger that raises, a trigger that never ends, and a trigger that COMMIT runs. */
export const TROUBLED_TABLES: Pick<DatabaseOptions, 'unique' | 'triggers' | 'deferred'> = {
  unique: { poison: ['id'], accounts: ['id'] },
  triggers: {
    raising: () => Promise.reject(raised('no such account')),
    hanging: ({ tx }) => tx.hang(),
  },
  deferred: {
    refused: () => {
      throw raised('the books do not balance')
    },
  },
}

/** The faulty table to which this execution must write, or null. `at` names the place in the trace. */
export function troubledTable(world: World, { key, trouble }: Plan, at: string = key): string | null {
  const { is, times } = trouble
  if (is === 'none' || is === 'mute' || !world.executions.isAmong(`${key} ${is}`, times)) return null
  world.happened(KINDS[is].fault, at)
  return KINDS[is].table
}

/**
 * Runs the handler's other statements: updates of rows that other operations lock too, and the faulty statement of the
 * first executions.
 */
export async function runStatements(world: World, plan: Plan, exec: number, tx: MemoryTx): Promise<void> {
  for (const id of plan.locks) await tx.update('accounts', { id }, ({ sum }) => ({ id, sum: Number(sum) + 1 }))
  const table = troubledTable(world, plan)
  if (table === null) return
  const statement = tx.insert(table, { exec })
  await (plan.trouble.caught ? statement.catch(() => undefined) : statement)
}
