import type { FinishStepParams, Held, StoredStep } from '../../store.ts'
import type { Work } from '../database/connection.ts'
import { isHeldBy, stepKey } from '../database/rows.ts'
import type { StepRow } from '../database/rows.ts'

export function steps({ database, tx }: Work, id: string, life: string): StoredStep[] {
  const found: StoredStep[] = []
  for (const [, step] of database.steps.rows(tx)) {
    if (step.id !== id || String(step.life) !== life) continue
    found.push({ name: step.name, state: step.state, result: step.result })
  }
  return found
}

export async function startStep(
  work: Work,
  params: Held & { readonly life: string; readonly name: string },
): Promise<boolean> {
  if (!(await isHeld(work, params))) return false
  await putStep(work, { id: params.id, life: Number(params.life), name: params.name, state: 'started', result: null })
  return true
}

/** Locks the record row in the same statement. So it waits for an uncommitted takeover, and then sees it. */
export async function finishStep(work: Work, params: FinishStepParams): Promise<boolean> {
  if (!(await isHeld(work, params))) return false
  await putFinished(work, params)
  return true
}

export function putFinished(work: Work, { id, life, name, result }: FinishStepParams): Promise<void> {
  return putStep(work, { id, life: Number(life), name, state: 'done', result })
}

async function putStep({ database, tx }: Work, row: StepRow): Promise<void> {
  const key = stepKey(row.id, row.life, row.name)
  if (await database.steps.insert(key, row, tx)) return
  await database.steps.lock(key, tx, 'update')
  database.steps.put(key, row, tx)
}

/** Locks the row `for share`, with the token in the condition. */
async function isHeld({ database, tx }: Work, { id, token }: Held): Promise<boolean> {
  return (await database.records.lock(id, tx, 'share', isHeldBy({ token }))) !== undefined
}
