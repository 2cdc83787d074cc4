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

/**
 * The steps of one name, with their undos, in the order of the primary key. The sizes are summed first, so that only the
 * results of this answer are read.
 * ?1 namespace (null: any), ?2 name, ?3 name of the undo, ?4 since, ?5 until, ?6 after id, ?7 after life, ?8 limit, ?9
 * bytes
 */
export const FIND_STEPS: string = `with w as (
    select n.*, sum(n.size) over (order by n.id, n.life) - n.size as before
      from (select s.rowid as no, s.id, s.life, r.route, r.label, coalesce(length(s.result), 0) as size
        from effectively_once_step s join effectively_once_record r on r.id = s.id
        where (s.id, s.life) > (?6, cast(?7 as integer)) and s.name = ?2
          and s.life >= cast(?4 as integer) and s.life < cast(?5 as integer)
          and (?1 is null or r.namespace is null or r.namespace = ?1)
        order by s.id, s.life limit ?8) n
  )
  select w.id, cast(w.life as text) as life, w.route, w.label, s.state, s.result, u.result as undone
    from w join effectively_once_step s on s.rowid = w.no
      left join effectively_once_step u on u.id = w.id and u.life = w.life and u.name = ?3
    where w.before < ?9 order by w.id, w.life`

/** Under the writer's lock, no attempt can take over between this check and the next write. */
export function holds(turn: Turn, { id, token }: Held): boolean {
  return turn.all(HELD, [id, token]).length === 1
}

export function stepOf(row: Row): StoredStep {
  const done = row['state'] === 2
  return { name: String(row['name']), state: done ? 'done' : 'started', result: done ? String(row['result']) : null }
}
