import type { FoundStep, OperationState, Row, StoredOperation } from '../store.ts'

/** A leased operation. Both databases use the same column names. */
export function operationOf(row: Row): StoredOperation {
  return {
    id: String(row['id']),
    state: String(row['state']) as OperationState,
    namespace: row['namespace'] as string | null,
    route: row['route'] as string | null,
    label: row['label'] as string | null,
    attempt: Number(row['attempt']),
    life: String(row['life']),
    ageMs: Number(row['age_ms']),
    leaseLeftMs: row['lease_left_ms'] === null ? null : Number(row['lease_left_ms']),
    recover: row['recover'] as string | null,
  }
}

export function foundStepOf(row: Row): FoundStep {
  const done = Number(row['state']) === 2
  return {
    id: String(row['id']),
    life: String(row['life']),
    route: row['route'] as string | null,
    label: row['label'] as string | null,
    state: done ? 'done' : 'started',
    result: done ? (row['result'] as string | null) : null,
    undone: row['undone'] as string | null,
  }
}
