import type { FinishStepParams, FoundStep, Held, StepFilter, StoredStep } from '../../store.ts'
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

/** The steps of one name, with their undos, ordered by operation and life. */
export function findSteps({ database, tx }: Work, filter: StepFilter): FoundStep[] {
  const { namespace, name, undo, after, limit } = filter
  const [since, until] = [Number(filter.since), Number(filter.until)]
  const rows: StepRow[] = []
  for (const [, step] of database.steps.rows(tx)) {
    if (step.name !== name || step.life < since || step.life >= until) continue
    if (step.id < after.id || (step.id === after.id && step.life <= Number(after.life))) continue
    const owner = database.records.seen(step.id, tx)?.about?.namespace
    if (namespace === null || owner === undefined || owner === namespace) rows.push(step)
  }
  rows.sort((a, b) => (a.id === b.id ? a.life - b.life : a.id < b.id ? -1 : 1))
  const found: FoundStep[] = []
  let left = filter.bytes
  for (const { id, life, state, result } of rows.slice(0, limit)) {
    if (left <= 0) break
    left -= Buffer.byteLength(result ?? '')
    const about = database.records.seen(id, tx)?.about
    const undone = database.steps.seen(stepKey(id, life, undo), tx)?.result ?? null
    found.push({
      id,
      life: String(life),
      route: about?.route ?? null,
      label: about?.label ?? null,
      state,
      result,
      undone,
    })
  }
  return found
}

/** A recorded result stays. */
export async function startStep(
  work: Work,
  params: Held & { readonly life: string; readonly name: string },
): Promise<boolean> {
  if (!(await isHeld(work, params))) return false
  const { id, name } = params
  const life = Number(params.life)
  const { database, tx } = work
  await database.steps.insert(stepKey(id, life, name), { id, life, name, state: 'started', result: null }, tx)
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
