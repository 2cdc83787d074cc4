import type { Claim, OperationFilter, OperationState, StoredOperation } from '../../store.ts'
import type { Work } from '../database/connection.ts'
import type { RecordRow } from '../database/rows.ts'
import { nextToken } from './claim.ts'
import { isUnknown } from './lease.ts'

/** The operations that are not completed, oldest first. */
export function listOperations(work: Work, filter: OperationFilter): StoredOperation[] {
  const { namespace, state, route, label, scope, olderThanMs, limit } = filter
  const found: StoredOperation[] = []
  for (const [, row] of work.database.records.rows(work.tx)) {
    const operation = operationOf(work, row)
    if (operation.state === 'completed' || operation.ageMs < olderThanMs) continue
    if (namespace !== null && operation.namespace !== null && operation.namespace !== namespace) continue
    if ((state ?? operation.state) !== operation.state || (scope ?? row.scope) !== row.scope) continue
    if ((route ?? operation.route) !== operation.route || (label ?? operation.label) !== operation.label) continue
    found.push(operation)
  }
  return found.sort((a, b) => Number(a.life) - Number(b.life) || (a.id < b.id ? -1 : 1)).slice(0, limit)
}

export function showOperation(
  work: Work,
  id: string,
): { readonly operation: StoredOperation; readonly input: string | null } | null {
  const row = work.database.records.seen(id, work.tx)
  if (row === undefined) return null
  return { operation: operationOf(work, row), input: work.database.recover.seen(id, work.tx)?.input ?? null }
}

/**
 * Ends the lease and fences its holder. It refuses while a call without an idempotency key has started, because no
 * process could tell whether to repeat the call.
 */
export async function evict(
  { database, tx }: Work,
  { id, replayForMs, goneForMs }: { readonly id: string } & Pick<Claim, 'replayForMs' | 'goneForMs'>,
): Promise<boolean> {
  const row = await database.records.lock(id, tx, 'update', ({ state }) => state !== 'completed')
  if (row === undefined) return false
  const begun = database.steps.rows(tx).some(([, s]) => s.id === id && s.life === row.life && s.state === 'started')
  if (begun) return false
  const now = database.now()
  database.records.put(
    id,
    {
      ...row,
      state: 'inProgress',
      token: nextToken(database, row.token),
      leaseUntil: now,
      expiresAt: Math.max(row.expiresAt, now + replayForMs * 1000),
      forgetAt: Math.max(row.forgetAt, now + (replayForMs + goneForMs) * 1000),
    },
    tx,
  )
  return true
}

function operationOf({ database, tx }: Work, row: RecordRow): StoredOperation {
  const now = database.now()
  return {
    id: row.id,
    state: stateOf(row, now),
    namespace: row.about?.namespace ?? null,
    route: row.about?.route ?? null,
    label: row.about?.label ?? null,
    attempt: row.attempt,
    life: String(row.life),
    ageMs: (now - row.life) / 1000,
    leaseLeftMs: row.leaseUntil === null || row.state === 'completed' ? null : (row.leaseUntil - now) / 1000,
    recover: database.recover.seen(row.id, tx)?.name ?? null,
  }
}

function stateOf(row: RecordRow, now: number): OperationState {
  if (row.state === 'completed') return 'completed'
  if (isUnknown(row, now)) return 'unknown'
  return (row.leaseUntil ?? now) <= now ? 'abandoned' : 'running'
}
