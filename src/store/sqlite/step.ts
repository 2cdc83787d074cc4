import type { FinishStepParams, Held, Row, StoredStep } from '../store.ts'
import type { Turn } from './turn.ts'

const HELD = `select 1 from effectively_once_record where id = ? and token = cast(? as integer) and state = 1`
const START = `insert into effectively_once_step (id, life, name, state) values (?, cast(? as integer), ?, 1)
  on conflict do nothing`
// A recorded result stays: a second attempt did not run the step.
const FINISH = `insert into effectively_once_step (id, life, name, state, result) values (?, cast(? as integer), ?, 2, ?)
  on conflict do update set state = 2, result = excluded.result where state = 1`

export const READ_STEPS = `select name, state, result from effectively_once_step
  where id = ? and life = cast(? as integer) order by rowid`

export function startStep(turn: Turn, { id, token, life, name }: Held & { life: string; name: string }): boolean {
  if (!holds(turn, { id, token })) return false
  turn.run(START, [id, life, name])
  return true
}

export function finishStep(turn: Turn, { id, token, life, name, result }: FinishStepParams): boolean {
  if (!holds(turn, { id, token })) return false
  turn.run(FINISH, [id, life, name, result])
  return true
}

/** Under the writer's lock, no attempt can take over between this check and the next write. */
export function holds(turn: Turn, { id, token }: Held): boolean {
  return turn.all(HELD, [id, token]).length === 1
}

export function stepOf(row: Row): StoredStep {
  const done = row['state'] === 2
  return { name: String(row['name']), state: done ? 'done' : 'started', result: done ? String(row['result']) : null }
}
